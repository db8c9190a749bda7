package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirq/weir/pkg/job"
)

// KeyRow is a lock at a glance.
type KeyRow struct {
	Key     string `json:"key"`
	Running int64  `json:"running"` // jobs that run with it
	Kept    int64  `json:"kept"`    // jobs that have it otherwise: next in line, or released a moment ago
	Waiting int64  `json:"waiting"` // jobs that are blocked
}

// Keys returns at most limit locks that begin with prefix and that somebody has or waits for, the longest lines first.
func (s *Store) Keys(ctx context.Context, prefix string, limit int) ([]KeyRow, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "keys", func(row pgx.Rows) (k KeyRow, err error) {
		err = row.Scan(&k.Key, &k.Running, &k.Kept, &k.Waiting)
		return k, err
	}, prefix, int32(limit))
}

// HolderRow is a job that has a lock. All times are of the database clock.
type HolderRow struct {
	Slot    int
	ID      job.ID
	Kept    bool          // not running with it: next in line, or released a moment ago
	Left    time.Duration // then: for how long it keeps the lock
	Kind    string        // empty: no such job is live
	Queue   string
	State   int16 // as stored; -1: it is not live
	Session job.ID
	Host    string
	PID     int
	Since   time.Duration // it runs
	Lease   time.Duration // left of its session's; negative: the next sweep gives it away
	Timeout time.Duration // of an attempt; zero: its handler's
	N       int           // its own number for the key
}

// KeyHolders returns at most limit jobs that have a lock, by slot.
func (s *Store) KeyHolders(ctx context.Context, key string, limit int) ([]HolderRow, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "key_holders", func(row pgx.Rows) (h HolderRow, err error) {
		var (
			left         *float64
			session      pgtype.UUID
			since, lease float64
			timeout      int64
		)
		err = row.Scan(&h.Slot, (*[16]byte)(&h.ID), &left, &h.Kind, &h.Queue, &h.State, &session, &h.Host, &h.PID, &since, &lease, &timeout, &h.N)
		h.Kept, h.Left, h.Session = left != nil, seconds(deref(left)), session.Bytes
		h.Since, h.Lease, h.Timeout = seconds(since), seconds(lease), timeoutOf(&timeout)
		return h, err
	}, key, int32(limit))
}

// LineRow is a job that waits for a lock.
type LineRow struct {
	ID    job.ID
	Kind  string
	Queue string
	Waits time.Duration // so far, on the database clock
	N     int           // its own number for the key
}

// KeyLine returns the first limit jobs of a lock's line.
func (s *Store) KeyLine(ctx context.Context, key string, limit int) ([]LineRow, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "key_line", func(row pgx.Rows) (l LineRow, err error) {
		var waits float64
		err = row.Scan((*[16]byte)(&l.ID), &l.Kind, &l.Queue, &waits, &l.N)
		l.Waits = seconds(waits)
		return l, err
	}, key, int32(limit))
}

// KeyPlace returns how many jobs wait for a lock and how many of them before a place: when a job joined the line, and its id.
func (s *Store) KeyPlace(ctx context.Context, key string, lineAt time.Time, id job.ID) (waiting, before int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err = s.row(ctx, s.sql["key_place"], key, lineAt, [16]byte(id)).Scan(&waiting, &before); err != nil {
		return 0, 0, fmt.Errorf("count a line: %w", Classify(err))
	}
	return waiting, before, nil
}

// What KeyTook reads: the last 20 holders among 20,000 rows of the log, some 30 ms.
const (
	tookHolders = 20
	tookRows    = 20_000
)

// KeyTook returns how long the last jobs that completed with a lock took on average, and how many those were, at most 20, by ids
// before one.
func (s *Store) KeyTook(ctx context.Context, key string, before job.ID) (average time.Duration, n int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var took *float64
	err = s.row(ctx, s.sql["key_took"], key, [16]byte(before), int32(tookHolders), int32(tookRows)).Scan(&took, &n)
	if err != nil {
		return 0, 0, fmt.Errorf("read how long holders took: %w", Classify(err))
	}
	return seconds(deref(took)), n, nil
}

// Facts are what decides when a live job runs, beside its keys. All times are of the database clock.
type Facts struct {
	Now       time.Time
	State     int16 // as stored
	Flags     int16
	Crashes   int
	Mode      job.Mode  // that the job asks for
	LineAt    time.Time // its place in the lines of its locks; zero without locks
	BlockedOn string

	QueuePaused, KindPaused       bool
	QueuePausedFor, KindPausedFor time.Duration

	Serve, Know, Both int // living workers that serve its queue, that know its kind, and that do both
	Before            int // due jobs that come before it in its queue, 20,000 at most

	Host  string // of the process that runs it
	PID   int
	Lease time.Duration // left of that process'
}

// Facts returns what decides when a live job runs; ok is false if it is not live.
func (s *Store) Facts(ctx context.Context, id job.ID) (f Facts, ok bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var (
		line              *time.Time
		queue, kind, left float64
		mode              int16
	)
	err = s.row(ctx, s.sql["explain_job"], [16]byte(id)).Scan(&f.Now, &f.State, &f.Flags, &f.Crashes, &mode, &line, &f.BlockedOn,
		&queue, &kind, &f.Serve, &f.Know, &f.Both, &f.Before, &f.Host, &f.PID, &left)
	if errors.Is(err, pgx.ErrNoRows) {
		return Facts{}, false, nil
	}
	if err != nil {
		return Facts{}, false, fmt.Errorf("explain job: %w", Classify(err))
	}
	f.Mode, f.LineAt, f.Lease = job.Mode(mode), deref(line), seconds(left)
	f.QueuePaused, f.QueuePausedFor = queue >= 0, max(seconds(queue), 0)
	f.KindPaused, f.KindPausedFor = kind >= 0, max(seconds(kind), 0)
	return f, true, nil
}

// RateHold returns for how long a rate is closed by job.RateBackoff; zero: it is not.
func (s *Store) RateHold(ctx context.Context, key string) (time.Duration, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	left, err := collect(ctx, s, "rate_hold", func(row pgx.Rows) (f float64, err error) {
		err = row.Scan(&f)
		return f, err
	}, key)
	if err != nil || len(left) == 0 {
		return 0, err
	}
	return seconds(left[0]), nil
}

// RatesOf is a live job and its rates.
type RatesOf struct {
	ID    job.ID
	Fence int
	Rates []job.Key
}

// WaitingRates returns those of ids that are live and have rates.
func (s *Store) WaitingRates(ctx context.Context, ids []job.ID) ([]RatesOf, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "waiting_rates", func(row pgx.Rows) (r RatesOf, err error) {
		var texts []string
		err = row.Scan((*[16]byte)(&r.ID), &r.Fence, &texts)
		r.Rates = job.JoinKeys(nil, nil, texts)
		return r, err
	}, raw(ids))
}

// KindInQueue is a kind of which jobs of a queue are due.
type KindInQueue struct {
	Kind      string        `json:"kind"`
	Due       int           `json:"due"`     // 1,000 of each priority are looked at
	Workers   int           `json:"workers"` // living ones that serve the queue and know it
	Paused    bool          `json:"paused,omitempty"`
	PausedFor time.Duration `json:"paused_ns,omitempty"`
}

// KindsDue returns the kinds of the due jobs of a queue, the 20 most frequent.
func (s *Store) KindsDue(ctx context.Context, queue string) ([]KindInQueue, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "explain_queue", func(row pgx.Rows) (k KindInQueue, err error) {
		var paused float64
		err = row.Scan(&k.Kind, &k.Due, &k.Workers, &paused)
		k.Paused, k.PausedFor = paused >= 0, max(seconds(paused), 0)
		return k, err
	}, queue)
}
