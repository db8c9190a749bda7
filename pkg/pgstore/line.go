package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// LineKeys returns at most limit keys, behind after, that some job is blocked on as the first of its keys.
func (s *Store) LineKeys(ctx context.Context, after string, limit int) ([]string, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("line_keys_v1", "line_keys_v1", 2), after, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("look for lines: %w", Classify(err))
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for lines: %w", Classify(err))
	}
	return keys, nil
}

// LineHolders returns who has each of keys: jobs that run, and those with a reservation or released a moment ago.
func (s *Store) LineHolders(ctx context.Context, keys []string) (map[string][]job.ID, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.sql["line_holders"], notNil(keys))
	if err != nil {
		return nil, fmt.Errorf("look for holders: %w", Classify(err))
	}
	defer rows.Close()
	out := make(map[string][]job.ID, len(keys))
	for rows.Next() {
		var (
			key string
			id  [16]byte
		)
		if err := rows.Scan(&key, &id); err != nil {
			return nil, fmt.Errorf("look for holders: %w", err)
		}
		out[key] = append(out[key], id)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look for holders: %w", Classify(err))
	}
	return out, nil
}
