package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// Beat is the answer to a sweeper's renewal.
type Beat struct {
	Now      time.Time     // the database's clock
	Longest  time.Duration // the longest lease among live sessions, the sweeper's own included
	Shortest time.Duration
}

// Beat renews a sweeper's session with a commit that waits for the disk. ErrSessionLost: it was given away.
func (s *Store) Beat(ctx context.Context, session job.ID, lease time.Duration) (b Beat, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var longest, shortest int64
	err = s.row(ctx, s.sql["beat"], [16]byte(session), int32(lease.Milliseconds())).Scan(&b.Now, &longest, &shortest)
	if errors.Is(err, pgx.ErrNoRows) {
		return Beat{}, ErrSessionLost
	}
	if err != nil {
		return Beat{}, fmt.Errorf("renew sweeper session: %w", Classify(err))
	}
	b.Longest, b.Shortest = time.Duration(longest)*time.Millisecond, time.Duration(shortest)*time.Millisecond
	return b, nil
}

// MarkDeadBy gives away every session whose lease has ended, except own, provided that the database clock has not
// passed by. Sessions that are being renewed at this moment are left for the next time.
func (s *Store) MarkDeadBy(ctx context.Context, own job.ID, by time.Time) ([]DeadSession, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.sql["mark_dead_by"], [16]byte(own), by)
	if err != nil {
		return nil, fmt.Errorf("mark dead sessions: %w", Classify(err))
	}
	defer rows.Close()
	var dead []DeadSession
	for rows.Next() {
		var d DeadSession
		if err := rows.Scan((*[16]byte)(&d.ID), &d.Role, &d.Host, &d.PID); err != nil {
			return nil, fmt.Errorf("mark dead sessions: %w", err)
		}
		dead = append(dead, d)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("mark dead sessions: %w", Classify(err))
	}
	return dead, nil
}

// UniqueRow says who owns a unique key.
type UniqueRow struct {
	Kind string
	Key  []byte
	Slot int16
	Job  job.ID
}

// Uniques returns limit rows behind after in the order of kind, key and slot, and those of them that are over: their
// job is not live and their time, if they have one, has passed. next is where the following page begins; nil at the end.
func (s *Store) Uniques(ctx context.Context, after UniqueRow, limit int) (over []UniqueRow, next *UniqueRow, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if after.Key == nil {
		after.Key = []byte{}
	}
	rows, err := s.query(ctx, s.sql["uniques"], after.Kind, after.Key, after.Slot, int32(limit))
	if err != nil {
		return nil, nil, fmt.Errorf("look for unique keys: %w", Classify(err))
	}
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var (
			u      UniqueRow
			isOver bool
		)
		if err := rows.Scan(&u.Kind, &u.Key, &u.Slot, (*[16]byte)(&u.Job), &isOver); err != nil {
			return nil, nil, fmt.Errorf("look for unique keys: %w", err)
		}
		if isOver {
			over = append(over, u)
		}
		if seen++; seen == limit {
			next = &u
		}
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("look for unique keys: %w", Classify(err))
	}
	return over, next, nil
}

// DeleteUniques deletes rows exactly as Uniques saw them: a key that another job owns by now stays.
func (s *Store) DeleteUniques(ctx context.Context, over []UniqueRow) (n int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	kinds, keys := make([]string, len(over)), make([][]byte, len(over))
	slots, ids := make([]int16, len(over)), make([][16]byte, len(over))
	for i, u := range over {
		kinds[i], keys[i], slots[i], ids[i] = u.Kind, u.Key, u.Slot, u.Job
	}
	tag, err := s.exec(ctx, s.sql["uniques_delete"], kinds, keys, slots, ids)
	if err != nil {
		return 0, fmt.Errorf("delete unique keys: %w", Classify(err))
	}
	return int(tag.RowsAffected()), nil
}

// DeleteSessions deletes at most limit sessions that died more than age ago and of which nothing is left to recover.
func (s *Store) DeleteSessions(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	tag, err := s.exec(ctx, s.sql["sessions"], age.Milliseconds(), int32(limit))
	if err != nil {
		return 0, fmt.Errorf("delete dead sessions: %w", Classify(err))
	}
	return int(tag.RowsAffected()), nil
}

// DeleteActions forgets at most limit actions that were done by hand before before.
func (s *Store) DeleteActions(ctx context.Context, before time.Time, limit int) (n int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	tag, err := s.exec(ctx, s.sql["actions"], before, int32(limit))
	if err != nil {
		return 0, fmt.Errorf("delete old actions: %w", Classify(err))
	}
	return int(tag.RowsAffected()), nil
}
