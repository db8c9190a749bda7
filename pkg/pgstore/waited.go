package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Waited returns those of some locks for which a job waits: of many that were freed, mostly none. Each needs a Pass.
func (s *Store) Waited(ctx context.Context, keys []string) ([]string, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("waited_v1", "waited_v1", 1), keys)
	if err != nil {
		return nil, fmt.Errorf("look at %d locks: %w", len(keys), Classify(err))
	}
	waited, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look at %d locks: %w", len(keys), Classify(err))
	}
	return waited, nil
}
