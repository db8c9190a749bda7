package sweeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

const (
	// idsAhead is how far in the future an id may lie.
	idsAhead = 10 * time.Minute
	// rotateLeaves is how many partitions of one table are emptied or dropped in one round: each can make others wait
	// for 50 ms.
	rotateLeaves = 4
	// guardWithin bounds the search of a large default partition, which nobody waits for.
	guardWithin = time.Minute
)

// rotation is what the duty rotate remembers between its rounds. Losing it costs work, nothing else.
type rotation struct {
	left    map[string]bool   // partitions whose rows lie in the default partition, which keeps them
	large   bool              // a default partition is large, and that was said
	carried map[string]*carry // by partition
	kept    job.ID            // where the walk through jobs_kept goes on
	inside  job.ID            // where the walk through the default partition of jobs goes on
}

// carry is how far the log rows of one partition were looked at.
type carry struct {
	at     job.ID
	copied bool // in this pass
}

// rotateOnce makes the partitions to come and retires those whose time is over. It returns how many partitions it made,
// emptied and dropped, and rows it copied and deleted.
func (s *Sweeper) rotateOnce(ctx context.Context) (n int, err error) {
	now, err := s.slow.Now(ctx)
	if err != nil {
		return 0, err
	}
	return s.rotateAt(ctx, now)
}

// rotateAt is rotateOnce at a time of the database clock. One part that fails does not stop the next.
func (s *Sweeper) rotateAt(ctx context.Context, now time.Time) (n int, err error) {
	parts, err := s.slow.Partitions(ctx)
	if err != nil {
		return 0, err
	}
	if s.rotation.left == nil {
		s.rotation.left, s.rotation.carried = map[string]bool{}, map[string]*carry{}
	}
	var errs []error
	for _, part := range []func(context.Context, time.Time, []pgstore.Partition) (int, error){s.extend, s.retire, s.tidyDefaults, s.tidyRest} {
		k, err := part(ctx, now, parts)
		n += k
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// isBusy counts a lock that was not free in time. That is no error: the next round tries again.
func (s *Sweeper) isBusy(err error) bool {
	if !pgstore.IsBusy(err) {
		return false
	}
	s.busy.Add(1)
	return true
}

// extend makes the partitions that are missing.
func (s *Sweeper) extend(ctx context.Context, now time.Time, parts []pgstore.Partition) (n int, err error) {
	errs := []error{s.unguard(ctx, now, parts)}
	for _, parent := range pgstore.Parents {
		for _, p := range missing(parts, parent, s.cfg.Width, s.cfg.Ahead, now) {
			if s.rotation.left[p.Name] || ctx.Err() != nil {
				continue
			}
			added, err := s.add(ctx, p, now)
			if s.isBusy(err) {
				break // whoever holds this table holds it for the next one, too
			}
			switch {
			case err != nil:
				errs = append(errs, err)
			case added == pgstore.AddedNow:
				n++
			case added == pgstore.LeftToDefault:
				s.rotation.left[p.Name] = true
				s.log.Warn("rows arrived before their partition was made: they stay in the default partition", "partition", p.Name)
			case added == pgstore.TooLarge && !s.rotation.large:
				s.rotation.large = true
				s.log.Warn("default partition is large: no sweeper made partitions for a while", "parent", p.Parent)
			}
		}
	}
	return n, errors.Join(errs...)
}

// add makes one partition. Behind a default partition too large to be searched under a lock it is guarded first, if its
// time is far enough.
func (s *Sweeper) add(ctx context.Context, p pgstore.Partition, now time.Time) (pgstore.Added, error) {
	present := p.From.Before(now.Add(idsAhead))
	added, err := s.slow.AddPartition(ctx, p, present)
	if err != nil || added != pgstore.TooLarge || p.From.Before(now.Add(s.guardLead())) {
		return added, err
	}
	if err := s.slow.GuardPartition(ctx, p, guardWithin); err != nil {
		return added, errors.Join(err, s.slow.UnguardPartition(ctx, p))
	}
	return s.slow.AddPartition(ctx, p, present)
}

// guardLead is how long before its beginning a partition may be guarded at the latest.
func (s *Sweeper) guardLead() time.Duration {
	return min(12*time.Hour, time.Duration(s.cfg.Ahead)*s.cfg.Width.Duration()/2)
}

// unguard takes away guards that were left by a sweeper that ended in between, before they refuse rows.
func (s *Sweeper) unguard(ctx context.Context, now time.Time, parts []pgstore.Partition) error {
	guards, err := s.slow.Guards(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range guards {
		isMade := slices.ContainsFunc(parts, func(p pgstore.Partition) bool { return p.Name == g.Name })
		if isMade || g.From.Before(now.Add(s.guardLead()/2)) {
			if err := s.slow.UnguardPartition(ctx, g); !s.isBusy(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
