package pgstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// QueueDepth is one queue as the table counts and the live sessions show it.
type QueueDepth struct {
	Name    string
	Workers int // live processes that serve it
	Slots   int // of these processes, for all their queues together

	Ready, Running, Blocked, Scheduled, Retrying int64

	Oldest    time.Duration // since the oldest ready job came due, on the database clock
	Paused    bool
	PausedFor time.Duration // on the database clock

	Done, Failed int64 // within the last hour: completed; discarded or expired
}

// finishedPages is how many pages of ended jobs, at 8 KiB, are read to count those of the last hour.
const finishedPages = 2000

// Queues returns every queue that has jobs, is served or is paused. estimated says that Done and Failed are estimates, since
// much has ended lately.
func (s *Store) Queues(ctx context.Context) (queues []QueueDepth, estimated bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	ended, estimated, err := s.finished(ctx)
	if err != nil {
		return nil, false, err
	}
	queues, err = collect(ctx, s, "queues", func(row pgx.Rows) (q QueueDepth, err error) {
		var oldest, paused float64
		err = row.Scan(&q.Name, &q.Workers, &q.Slots, &q.Ready, &q.Running, &q.Blocked, &q.Scheduled, &q.Retrying, &oldest, &paused)
		q.Oldest, q.Paused, q.PausedFor = seconds(oldest), paused >= 0, max(seconds(paused), 0)
		e := ended[q.Name]
		q.Done, q.Failed = e.done, e.failed
		return q, err
	})
	return queues, estimated, err
}

type ended struct {
	queue        string
	done, failed int64
}

// finished counts what ended within the last hour.
func (s *Store) finished(ctx context.Context) (map[string]ended, bool, error) {
	var pages [2]int64
	if err := s.row(ctx, s.sql["finished_pages"]).Scan(&pages[0], &pages[1]); err != nil {
		return nil, false, fmt.Errorf("measure ended jobs: %w", Classify(err))
	}
	done, failed := sampled(pages[0]), sampled(pages[1])
	rows, err := collect(ctx, s, "finished", func(row pgx.Rows) (e ended, err error) {
		err = row.Scan(&e.queue, &e.done, &e.failed)
		return e, err
	}, done, failed)
	byQueue := make(map[string]ended, len(rows))
	for _, e := range rows {
		byQueue[e.queue] = e
	}
	return byQueue, min(done, failed) < 100, err
}

// sampled returns the percentage of so many pages that is read.
func sampled(pages int64) float64 {
	return min(100, 100*finishedPages/float64(max(pages, 1)))
}

// Counted returns how long ago the table counts was filled; false if it is empty.
func (s *Store) Counted(ctx context.Context) (ago time.Duration, ok bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var age *float64
	if err := s.row(ctx, s.sql["counted"]).Scan(&age); err != nil {
		return 0, false, fmt.Errorf("read counts: %w", Classify(err))
	}
	return seconds(deref(age)), age != nil, nil
}

// WorkerRow is one process that was not given up.
type WorkerRow struct {
	ID      job.ID
	Role    string // "worker" or "sweeper"
	Host    string
	PID     int
	Version string
	State   string // "serving" or "draining"
	Busy    int
	Slots   int
	Queues  []string
	Lease   time.Duration // left on the database clock; negative: the next sweep gives its jobs away
	Since   time.Duration // its start, on the database clock
}

// Workers returns the processes that were not given up.
func (s *Store) Workers(ctx context.Context) ([]WorkerRow, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "workers", func(row pgx.Rows) (w WorkerRow, err error) {
		var lease, since float64
		err = row.Scan((*[16]byte)(&w.ID), &w.Role, &w.Host, &w.PID, &w.Version, &w.State, &w.Busy, &w.Slots, &w.Queues, &lease, &since)
		w.Lease, w.Since = seconds(lease), seconds(since)
		return w, err
	})
}

// KindRow is one kind that a live process knows or that is paused.
type KindRow struct {
	Name      string
	Workers   int
	Paused    bool
	PausedFor time.Duration
}

// Kinds returns every kind that a live process knows or that is paused.
func (s *Store) Kinds(ctx context.Context) ([]KindRow, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "kinds", func(row pgx.Rows) (k KindRow, err error) {
		var paused float64
		err = row.Scan(&k.Name, &k.Workers, &paused)
		k.Paused, k.PausedFor = paused >= 0, max(seconds(paused), 0)
		return k, err
	})
}

// IDsBetween returns the ids of jobs from low to high, both included, at most limit.
func (s *Store) IDsBetween(ctx context.Context, low, high job.ID, limit int) ([]job.ID, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "id_range", func(row pgx.Rows) (id job.ID, err error) {
		err = row.Scan((*[16]byte)(&id))
		return id, err
	}, [16]byte(low), [16]byte(high), int32(limit))
}

// collect runs a statement and reads all its rows.
func collect[T any](ctx context.Context, s *Store, name string, scan func(pgx.Rows) (T, error), args ...any) ([]T, error) {
	rows, err := s.query(ctx, s.sql[name], args...)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, Classify(err))
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list %s: %w", name, Classify(err))
	}
	return all, nil
}

// seconds converts what Postgres computed, to the millisecond.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s*1000)) * time.Millisecond }
