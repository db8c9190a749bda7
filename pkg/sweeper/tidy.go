package sweeper

import (
	"context"
	"errors"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

const (
	expireBatch = 200
	tidyBatch   = 1000
	// tidyBudget is how long one duty walks through a table in one run; it goes on from there in the next.
	tidyBudget = 2 * time.Second
	// sessionAge is how long the row of a dead process is shown.
	sessionAge = time.Hour
	// actionAge is how long it is known who did what by hand.
	actionAge = 90 * 24 * time.Hour
)

// expireOnce ends unstarted jobs whose time has passed, and returns how many. What they had or waited for is passed on
// (`cancelPass`).
func (s *Sweeper) expireOnce(ctx context.Context) (n int, err error) {
	var freed []string
	defer func() {
		_, errPass := s.pass(ctx, freed)
		err = errors.Join(err, errPass)
	}()
	for {
		jobs, err := s.slow.Expire(ctx, expireBatch)
		if err != nil {
			return n, err
		}
		s.expired(jobs)
		var rates []pgstore.RatesOf
		for _, e := range jobs {
			freed = append(freed, e.Freed...)
			if len(e.Rates) > 0 {
				rates = append(rates, pgstore.RatesOf{ID: e.ID, Fence: e.Fence, Rates: e.Rates})
			}
		}
		s.client.Unreserve(ctx, rates)
		n += len(jobs)
		if len(jobs) < expireBatch || ctx.Err() != nil {
			return n, nil
		}
	}
}

// uniquesOnce frees unique keys of jobs that are not live any more, a stretch of the table at a time.
func (s *Sweeper) uniquesOnce(ctx context.Context) (n int, err error) {
	for end := time.Now().Add(tidyBudget); time.Now().Before(end) && ctx.Err() == nil; {
		over, next, err := s.slow.Uniques(ctx, s.uniqueAt, tidyBatch)
		if err != nil {
			return n, err
		}
		if len(over) > 0 {
			gone, err := s.slow.DeleteUniques(ctx, over)
			if n += gone; err != nil {
				return n, err
			}
		}
		if next == nil {
			s.uniqueAt = pgstore.UniqueRow{Slot: -1}
			return n, nil
		}
		s.uniqueAt = *next
	}
	return n, nil
}

// reportsOnce forgets what jobs that have ended said of themselves, a stretch of the table at a time.
func (s *Sweeper) reportsOnce(ctx context.Context) (n int, err error) {
	for end := time.Now().Add(tidyBudget); time.Now().Before(end) && ctx.Err() == nil; {
		over, next, err := s.slow.Reports(ctx, s.reportAt, s.cfg.Retention.Completed, tidyBatch)
		if err != nil {
			return n, err
		}
		if len(over) > 0 {
			gone, err := s.slow.DeleteReports(ctx, over)
			if n += gone; err != nil {
				return n, err
			}
		}
		if next == nil {
			s.reportAt = job.ID{}
			return n, nil
		}
		s.reportAt = *next
	}
	return n, nil
}

// sessionsOnce deletes the rows of processes that died long ago.
func (s *Sweeper) sessionsOnce(ctx context.Context) (n int, err error) {
	return repeat(ctx, tidyBatch, func() (int, error) { return s.slow.DeleteSessions(ctx, sessionAge, tidyBatch) })
}

// countsOnce caches the depth of the queues, unless another sweeper has just done so.
func (s *Sweeper) countsOnce(ctx context.Context) (n int, err error) {
	n, err = s.slow.Count(ctx, countsEvery/2)
	return max(n, 0), err
}

// repeat calls step until it does less than a whole batch, its budget is used up or ctx ends. It returns the sum.
func repeat(ctx context.Context, batch int, step func() (int, error)) (n int, err error) {
	for end := time.Now().Add(tidyBudget); ; {
		k, err := step()
		n += k
		if err != nil || k < batch || time.Now().After(end) || ctx.Err() != nil {
			return n, err
		}
	}
}
