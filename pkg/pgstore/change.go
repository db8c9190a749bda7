package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// Change is what an operator says of waiting jobs. Zero fields change nothing.
type Change struct {
	At       time.Time      // due then; past means now
	In       *time.Duration // or so long from now
	Priority int
}

// Change changes when waiting jobs start. It returns those that it changed, and the locks that they do not have or wait for any
// more, to pass on.
func (s *Store) Change(ctx context.Context, ids []job.ID, ch Change) (changed []Revived, freed []string, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var (
		at       *time.Time
		in       *int64
		priority *int16
	)
	if !ch.At.IsZero() {
		at = &ch.At
	}
	if ch.In != nil {
		in = new(int64)
		*in = ch.In.Milliseconds()
	}
	if ch.Priority != 0 {
		priority = new(int16)
		*priority = int16(ch.Priority)
	}
	rows, err := s.query(ctx, s.call("change_v1", "job_id, job_kind, job_queue, due, freed", 4), sorted(ids), at, in, priority)
	if err != nil {
		return nil, nil, fmt.Errorf("change %d jobs: %w", len(ids), Classify(err))
	}
	defer rows.Close()
	for rows.Next() {
		var (
			r    Revived
			keys []string
		)
		if err := rows.Scan((*[16]byte)(&r.ID), &r.Kind, &r.Queue, &r.Due, &keys); err != nil {
			return nil, nil, fmt.Errorf("change %d jobs: %w", len(ids), err)
		}
		changed, freed = append(changed, r), append(freed, keys...)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("change %d jobs: %w", len(ids), Classify(err))
	}
	return changed, freed, nil
}
