package sweeper

import (
	"context"
	"errors"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// recoverBatch is how many jobs one transaction gives away: few, so that it locks for milliseconds.
const recoverBatch = 100

// recoverOnce marks sessions dead whose lease has ended, if this sweeper trusts itself, and gives away the jobs of all
// dead sessions and of sessions that have no row. It returns how many jobs.
func (s *Sweeper) recoverOnce(ctx context.Context) (n int, err error) {
	s.pulse.tick(time.Now(), s.cfg.Recover+s.cfg.Recover/10)
	var errs []error
	if err := s.markDead(ctx); err != nil {
		errs = append(errs, err) // those that are dead already are recovered all the same
	}
	// Found in this statement, acted on in the next by exact values (rule G). Needs no trust: a session without a row
	// can neither be renewed nor claim.
	var orphans []job.ID
	err = s.timed(func() (err error) {
		orphans, err = s.life.OrphanSessions(ctx)
		return err
	})
	if err != nil {
		errs = append(errs, err)
	}
	hints := map[string]coord.Hint{}
	var freed []string
	for more := true; more && ctx.Err() == nil; {
		var jobs []pgstore.Recovered
		// Every round asks for all dead sessions, not only for those just marked (rescan): a claim may commit after the
		// mark, and this sweeper or another may have ended between mark and recovery.
		err := s.timed(func() (err error) {
			jobs, err = s.life.Recover(ctx, orphans, recoverBatch, passReserve)
			return err
		})
		if err != nil {
			errs = append(errs, err)
			break
		}
		s.recovered(jobs)
		addHints(hints, jobs)
		for _, r := range jobs {
			freed = append(freed, r.Freed...)
		}
		n += len(jobs)
		more = len(jobs) == recoverBatch
	}
	_, _ = s.announce(ctx, hints)
	_, err = s.pass(ctx, freed)
	return n, errors.Join(append(errs, err)...)
}

// timed runs a statement of this duty and tells the pulse how it went.
func (s *Sweeper) timed(run func() error) error {
	sent := time.Now()
	err := run()
	now := time.Now()
	s.pulse.note(now, now.Sub(sent), err)
	return err
}

func (s *Sweeper) markDead(ctx context.Context) error {
	holds, changed := s.pulse.changed(time.Now())
	switch {
	case changed && holds:
		s.log.Info("sweeper trusts itself: it gives away the jobs of silent processes")
	case changed:
		s.log.Warn("sweeper does not trust itself: the database, its clock or this process stood still; nobody is called dead for one lease")
	}
	own, by, ok := s.pulse.permit(time.Now())
	if !ok {
		return nil
	}
	var dead []pgstore.DeadSession
	err := s.timed(func() (err error) {
		dead, err = s.life.MarkDeadBy(ctx, own, by)
		return err
	})
	for _, d := range dead {
		s.log.Warn("process is dead: its lease has ended", "session", d.ID, "role", d.Role, "host", d.Host, "pid", d.PID)
	}
	return err
}

// addHints counts the jobs of each queue and kind that can start again at once. Those with a wait are wake's.
func addHints(hints map[string]coord.Hint, jobs []pgstore.Recovered) {
	for _, r := range jobs {
		if r.State == job.Available && r.Crashes <= 1 {
			addHint(hints, r.Queue, r.Kind, r.Due)
		}
	}
}
