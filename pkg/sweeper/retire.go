package sweeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// cutoff is the time before which rows of parent are over.
func (s *Sweeper) cutoff(parent string, now time.Time) time.Time {
	if parent == "dead" || parent == "attempts" {
		return now.Add(-s.cfg.Retention.Dead)
	}
	return now.Add(-s.cfg.Retention.Completed)
}

// retire empties and drops the partitions whose time is over, the oldest first.
func (s *Sweeper) retire(ctx context.Context, now time.Time, parts []pgstore.Partition) (n int, err error) {
	var errs []error
	for _, parent := range pgstore.Parents {
		var old []pgstore.Partition
		for _, p := range parts {
			if p.Parent == parent && !p.To.IsZero() && !p.To.After(s.cutoff(parent, now)) {
				old = append(old, p)
			}
		}
		slices.SortFunc(old, func(a, b pgstore.Partition) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) })
		done := 0
		for _, p := range old {
			if done == rotateLeaves || ctx.Err() != nil {
				break
			}
			k, err := s.retireOne(ctx, p)
			if n += k; k > 0 {
				done++
			}
			if s.isBusy(err) {
				break // a reader of the table holds them all
			}
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}

// retireOne brings one partition as far as it can be brought now, and returns how many rows it copied, and one each for
// emptying and dropping.
func (s *Sweeper) retireOne(ctx context.Context, p pgstore.Partition) (n int, err error) {
	if p.Bytes > 0 {
		if p.Parent == "jobs" {
			copied, isDone, err := s.carryOver(ctx, p.Name, before(pgstore.FloorID(p.From)), pgstore.FloorID(p.To))
			if n += copied; err != nil || !isDone {
				return n, err
			}
		}
		emptied, err := s.slow.EmptyPartition(ctx, p)
		if err != nil {
			return n, err
		}
		if !emptied { // a row arrived behind us: look at all of them again
			delete(s.rotation.carried, p.Name)
			return n, nil
		}
		n++
	}
	dropped, err := s.slow.DropPartition(ctx, p)
	if dropped {
		n++
		delete(s.rotation.carried, p.Name)
		s.log.Info("partition dropped", "partition", p.Name)
	}
	return n, err
}

// carryOver copies log rows that are still wanted out of a stretch of ids. isDone means that a whole pass found nothing
// to copy. So what was copied has been visible for a round before the partition is emptied: a statement that took its
// snapshot before the copy and comes to the partition after that would find the row in neither place.
func (s *Sweeper) carryOver(ctx context.Context, name string, after, to job.ID) (n int, isDone bool, err error) {
	c := s.rotation.carried[name]
	if c == nil {
		c = &carry{at: after}
		s.rotation.carried[name] = c
	}
	for end := time.Now().Add(tidyBudget); time.Now().Before(end) && ctx.Err() == nil; {
		w, err := s.slow.Carry(ctx, c.at, to, tidyBatch)
		if err != nil {
			return n, false, err
		}
		n += w.Done
		c.copied = c.copied || w.Done > 0
		if w.Seen < tidyBatch {
			isDone = !c.copied
			*c = carry{at: after}
			return n, isDone, nil
		}
		c.at = w.Last
	}
	return n, false, nil
}

// before returns the id right before id, so that a walk that begins behind it meets id.
func before(id job.ID) job.ID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			break
		}
	}
	return id
}

// tidyDefaults deletes what is over from the default partitions: rows with ids that were old when they came, and those
// that came while their partition was missing.
func (s *Sweeper) tidyDefaults(ctx context.Context, now time.Time, parts []pgstore.Partition) (n int, err error) {
	var errs []error
	for _, p := range parts {
		if !p.IsDefault() || p.Bytes == 0 || ctx.Err() != nil {
			continue
		}
		cutoff := s.cutoff(p.Parent, now)
		var k int
		if p.Parent == "jobs" {
			k, err = s.tidyLog(ctx, p.Name, cutoff)
		} else {
			k, err = repeat(ctx, tidyBatch, func() (int, error) { return s.slow.TidyOld(ctx, p.Parent, cutoff, 5*tidyBatch) })
		}
		if n += k; !s.isBusy(err) {
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}

// tidyLog is tidyDefaults for the log.
func (s *Sweeper) tidyLog(ctx context.Context, name string, cutoff time.Time) (n int, err error) {
	to := pgstore.FloorID(cutoff)
	n, isDone, err := s.carryOver(ctx, name, job.ID{}, to)
	if err != nil || !isDone {
		return n, err
	}
	k, err := s.walk(ctx, &s.rotation.inside, func(after job.ID) (pgstore.Walked, error) {
		return s.slow.TidyDefault(ctx, after, to, cutoff, tidyBatch)
	})
	return n + k, err
}

// tidyRest deletes kept log rows that nobody needs and old actions.
func (s *Sweeper) tidyRest(ctx context.Context, now time.Time, _ []pgstore.Partition) (n int, err error) {
	n, errKept := s.walk(ctx, &s.rotation.kept, func(after job.ID) (pgstore.Walked, error) {
		return s.slow.TidyKept(ctx, after, tidyBatch)
	})
	k, errActions := repeat(ctx, tidyBatch, func() (int, error) {
		return s.slow.DeleteActions(ctx, now.Add(-actionAge), tidyBatch)
	})
	return n + k, errors.Join(errKept, errActions)
}

// walk goes through a table for a while, from where it last was, and begins anew at its end.
func (s *Sweeper) walk(ctx context.Context, at *job.ID, step func(after job.ID) (pgstore.Walked, error)) (n int, err error) {
	for end := time.Now().Add(tidyBudget); time.Now().Before(end) && ctx.Err() == nil; {
		w, err := step(*at)
		if err != nil {
			return n, err
		}
		n += w.Done
		if w.Seen < tidyBatch {
			*at = job.ID{}
			return n, nil
		}
		*at = w.Last
	}
	return n, nil
}
