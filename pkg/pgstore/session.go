package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// Session describes a process start.
type Session struct {
	ID      job.ID
	Role    string // "worker" or "sweeper"
	Lease   time.Duration
	Host    string
	PID     int
	Version string
	Queues  []string
	Kinds   []string
	Slots   int
}

// OpenSession registers a process and returns the database's time.
func (s *Store) OpenSession(ctx context.Context, p Session) (now time.Time, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	err = s.row(ctx, s.sql["open_session"], [16]byte(p.ID), p.Role, int32(p.Lease.Milliseconds()),
		job.SanitizeText(p.Host, 255), int32(p.PID), job.SanitizeText(p.Version, 128), notNil(p.Queues), notNil(p.Kinds),
		int32(p.Slots)).Scan(&now)
	if err != nil {
		return now, fmt.Errorf("open session: %w", Classify(err))
	}
	return now, nil
}

func notNil(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// CloseSession removes a session that runs nothing any more; one that does keeps its row until the lease ends.
func (s *Store) CloseSession(ctx context.Context, session job.ID) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := s.exec(ctx, s.sql["close_session"], [16]byte(session)); err != nil {
		return fmt.Errorf("close session: %w", Classify(err))
	}
	return nil
}

// Renewal is what a process says with its renewal.
type Renewal struct {
	Lease time.Duration
	Slots int
	Busy  int
	State string // "serving" or "draining"
}

// Changes is what a renewal brings back.
type Changes struct {
	Now          time.Time
	Running      int      // jobs that the database counts as run by this session
	Cancelled    []job.ID // those of them that somebody asked to cancel
	Sweeper      bool     // a sweeper lives
	PausedQueues []string
	PausedKinds  []string
}

// Renew extends the session's lease from now on the database clock and reports what changed meanwhile.
// ErrSessionLost means that the sweeper may have given its jobs away.
func (s *Store) Renew(ctx context.Context, session job.ID, r Renewal) (c Changes, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var cancelled [][16]byte
	err = s.row(ctx, s.call("renew_v1", "db_now, running, cancelled, sweeper, paused_queues, paused_kinds", 5),
		[16]byte(session), int32(r.Lease.Milliseconds()), int32(r.Slots), int32(r.Busy), r.State).
		Scan(&c.Now, &c.Running, &cancelled, &c.Sweeper, &c.PausedQueues, &c.PausedKinds)
	if errors.Is(err, pgx.ErrNoRows) {
		return Changes{}, ErrSessionLost
	}
	if err != nil {
		return Changes{}, fmt.Errorf("renew session: %w", Classify(err))
	}
	c.Cancelled = fromRaw(cancelled)
	return c, nil
}

// Held returns what the session holds by the database's account.
func (s *Store) Held(ctx context.Context, session job.ID) ([]Held, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.sql["held"], [16]byte(session))
	if err != nil {
		return nil, fmt.Errorf("read held jobs: %w", Classify(err))
	}
	defer rows.Close()
	var held []Held
	for rows.Next() {
		var (
			id    [16]byte
			fence int
		)
		if err := rows.Scan(&id, &fence); err != nil {
			return nil, fmt.Errorf("read held jobs: %w", err)
		}
		held = append(held, Held{id, fence})
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read held jobs: %w", Classify(err))
	}
	return held, nil
}
