package sweeper

import (
	"context"
	"errors"
	"time"
)

// unblockBatch is how many lock rows and lines one look takes.
const unblockBatch = 500

// unblockOnce repairs what others left of the locks in Postgres: reservations and lingering holders whose time is over,
// rows of jobs that do not hold them any more, and keys with room that nobody passed on to those who wait for them. It
// returns how many repairs there were.
func (s *Sweeper) unblockOnce(ctx context.Context) (n int, err error) {
	for end := time.Now().Add(tidyBudget); ; {
		found, err := s.slow.Tidy(ctx, s.lineAt, unblockBatch)
		if err != nil {
			return n, err
		}
		for kind, k := range found.Repairs {
			s.repairs.add(kind, k)
			n += k
		}
		s.lineAt = found.Next
		_, err = s.pass(ctx, found.Keys)
		isOver := !found.More && found.Next == ""
		if err != nil || isOver || time.Now().After(end) || ctx.Err() != nil {
			return n, errors.Join(err, context.Cause(ctx))
		}
	}
}
