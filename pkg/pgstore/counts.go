package pgstore

import (
	"context"
	"fmt"
	"time"
)

// countPages is how much of the live table one count reads; a larger one is sampled.
const countPages = 2000

// Count caches the depth of each queue and state in the table counts and returns how many rows that has, or -1 if
// another did so less than age ago or is at it. Figures of more than some 200,000 live jobs are estimates.
func (s *Store) Count(ctx context.Context, age time.Duration) (rows int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	err = s.row(ctx, s.call("counts_v1", "counts_v1", 2), int32(age.Milliseconds()), int32(countPages)).Scan(&rows)
	if err != nil {
		return 0, fmt.Errorf("count jobs: %w", Classify(err))
	}
	return rows, nil
}
