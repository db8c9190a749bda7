package sweeper

import (
	"context"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// RotateAt is the duty rotate at a time of a test's choice: partitions of days are tested without days.
func (s *Sweeper) RotateAt(ctx context.Context, now time.Time) (int, error) {
	return s.rotateAt(ctx, now)
}

// Slow gives tests the store behind its lane.
func (s *Sweeper) Slow() *pgstore.Store { return s.slow }
