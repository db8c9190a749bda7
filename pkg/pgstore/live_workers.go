package pgstore

import (
	"context"
	"fmt"
)

// LiveWorkers returns how many workers there are whose lease has not ended.
func (s *Store) LiveWorkers(ctx context.Context) (n int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err = s.row(ctx, s.sql["live_workers"]).Scan(&n); err != nil {
		return 0, fmt.Errorf("count workers: %w", Classify(err))
	}
	return n, nil
}
