package pgstore

import (
	"context"
	"fmt"
	"time"
)

// DueQueue is a queue with something to announce.
type DueQueue struct {
	Queue  string
	Due    int         // jobs that are due and that a live worker could run
	Least  time.Time   // the least ready_at among them
	Coming []time.Time // ready_at of jobs that come due within the horizon, one for each job, in no order
	Now    time.Time   // the database's time
}

// DueRange says where Due looks.
type DueRange struct {
	Window  time.Duration // jobs due for less than this
	Grace   time.Duration // and for more than this: the youngest were announced by their producer
	Horizon time.Duration // and jobs that come due within this
	Limit   int           // rows looked at in each queue, priority and part
}

// Due returns what is to be announced in queues that live workers serve, in one statement.
func (s *Store) Due(ctx context.Context, r DueRange) ([]DueQueue, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("due_v1", "due_queue, due, oldest, coming, db_now", 4),
		int32(r.Window.Milliseconds()), int32(r.Grace.Milliseconds()), int32(r.Horizon.Milliseconds()), int32(r.Limit))
	if err != nil {
		return nil, fmt.Errorf("look for due jobs: %w", Classify(err))
	}
	defer rows.Close()
	var out []DueQueue
	for rows.Next() {
		var (
			q     DueQueue
			least *time.Time
		)
		if err := rows.Scan(&q.Queue, &q.Due, &least, &q.Coming, &q.Now); err != nil {
			return nil, fmt.Errorf("look for due jobs: %w", err)
		}
		q.Least = deref(least)
		out = append(out, q)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look for due jobs: %w", Classify(err))
	}
	return out, nil
}

// Stragglers returns the queues with jobs that have been due for longer than age and that a live worker could run,
// counted up to limit for each queue. It reads them from the start, however long that takes.
func (s *Store) Stragglers(ctx context.Context, age time.Duration, limit int) ([]DueQueue, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("stragglers_v1", "due_queue, due, oldest", 2), int32(age.Milliseconds()), int32(limit))
	if err != nil {
		return nil, fmt.Errorf("look for stragglers: %w", Classify(err))
	}
	defer rows.Close()
	var out []DueQueue
	for rows.Next() {
		var q DueQueue
		if err := rows.Scan(&q.Queue, &q.Due, &q.Least); err != nil {
			return nil, fmt.Errorf("look for stragglers: %w", err)
		}
		out = append(out, q)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look for stragglers: %w", Classify(err))
	}
	return out, nil
}
