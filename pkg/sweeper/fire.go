package sweeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirq/weir/internal/cadence"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/pgstore"
)

const (
	firePage  = 200 // schedules read at once
	fireBatch = 50  // ticks a statement, each with a subtransaction
	// fireGrace is how late MisfireSkip still fires a tick.
	fireGrace = time.Minute
	// fireAgain is how soon is looked again for what another sweeper, or a sync, had locked.
	fireAgain = 100 * time.Millisecond
)

// fireHorizon reaches beyond the next round: what comes due before it gets an alarm.
func (s *Sweeper) fireHorizon() time.Duration {
	return s.cfg.Fire + s.cfg.Fire/10 + 250*time.Millisecond
}

// fireOnce fires the ticks that are due, and sets the alarm for the next one that comes before the next round. It returns how
// many jobs it added. Whatever the number of sweepers, the statement lets each tick through once.
func (s *Sweeper) fireOnce(ctx context.Context) (n int, err error) {
	var (
		after *pgstore.DueSchedule
		next  time.Time // local
		seen  = map[string]string{}
	)
	for {
		page, err := s.prompt.FireDue(ctx, s.fireHorizon(), after, firePage)
		if err != nil {
			return n, err
		}
		answered := time.Now()
		steps, coming := s.firing.plan(page, seen)
		fired, dealt, err := s.fire(ctx, steps)
		n += fired
		if err != nil {
			return n, err
		}
		for _, in := range coming {
			next = sooner(next, answered.Add(in+time.Millisecond))
		}
		if dealt < len(steps) {
			next = sooner(next, time.Now().Add(fireAgain+rand.N(fireAgain)))
		}
		if len(page) < firePage || ctx.Err() != nil {
			break
		}
		after = &page[len(page)-1]
	}
	s.tellBroken(seen)
	s.firing.arm(next)
	return n, nil
}

// fire does steps, a batch a statement, and tells workers after each commit. It returns how many jobs were added and how many
// steps nobody else has done.
func (s *Sweeper) fire(ctx context.Context, steps []step) (added, dealt int, err error) {
	for len(steps) > 0 && ctx.Err() == nil {
		batch := steps[:min(fireBatch, len(steps))]
		steps = steps[len(batch):]
		ticks := make([]pgstore.Tick, len(batch))
		for i, st := range batch {
			ticks[i] = st.tick
		}
		fired, err := s.prompt.Fire(ctx, ticks)
		if err != nil {
			return added, dealt, err
		}
		dealt += len(fired)
		s.client.AnnounceFired(fired)
		for _, f := range fired {
			added += s.told(batch[f.Place], f)
		}
	}
	return added, dealt, nil
}

// told counts and logs what became of one step, and returns how many jobs it added: one or none.
func (s *Sweeper) told(st step, f pgstore.Fired) int {
	if st.missed > 0 {
		s.firing.count(0, st.missed, 0)
		s.log.Warn("ticks of a schedule were missed", "schedule", st.tick.Name, "ticks", st.missed, "policy", st.policy)
	}
	switch {
	case f.Problem != "":
		s.firing.count(0, 0, 1)
		s.log.Error("a schedule's job was refused; its tick is passed over", "schedule", st.tick.Name, "tick", st.tick.At, "err", f.Problem)
	case st.tick.At.IsZero():
	default: // a unique key that was taken is the schedule's own wish
		s.firing.count(1, 0, 0)
		if !f.Duplicate {
			return 1
		}
	}
	return 0
}

// ringFire fires what has come due. An error is left to the next round, which reports it.
func (s *Sweeper) ringFire(ctx context.Context) {
	s.firing.arm(time.Time{}) // first, or an alarm that fails would ring for ever
	_, _ = s.RunDuty(ctx, "fire")
}

// tellBroken logs once which schedules cannot be fired here, and which can again. They stay due: another sweeper may know the zone.
func (s *Sweeper) tellBroken(broken map[string]string) {
	for name, why := range broken {
		if s.firing.broken[name] != why {
			s.firing.count(0, 0, 1)
			s.log.Error("a schedule cannot be fired by this sweeper", "schedule", name, "err", why)
		}
	}
	for name := range s.firing.broken {
		if _, ok := broken[name]; !ok {
			s.log.Info("a schedule is in order again, or gone", "schedule", name)
		}
	}
	s.firing.broken = broken
}

// ScheduleStats count what became of ticks, of all schedules together, since New.
type ScheduleStats struct {
	Fired  uint64 // ticks that became a job, or would have if a unique key had not been taken
	Missed uint64 // ticks that were dropped by their schedule's Misfire; of one outage at most 10,000 a schedule are counted
	Failed uint64 // ticks whose job was refused, and schedules that this sweeper cannot fire
}

// firing is what the duty fire remembers.
type firing struct {
	broken   map[string]string           // by name, why; guarded by the duty's turn
	cadences map[string]*cadence.Cadence // read before, by their text; the same

	mu    sync.Mutex
	alarm time.Time // local; zero: none
	stats ScheduleStats
}

// step is one tick to fire, and how many before it are dropped.
type step struct {
	tick   pgstore.Tick
	missed int
	policy string
}

// maxCadences bounds what is remembered; schedules that change their rhythm leave their old ones behind.
const maxCadences = 10_000

// plan turns due schedules into steps, and returns how long it is until each of those that are to come. What cannot be
// understood goes to broken.
func (f *firing) plan(page []pgstore.DueSchedule, broken map[string]string) (steps []step, coming []time.Duration) {
	for _, d := range page {
		cad, err := f.cadence(d.Rhythm)
		if err != nil {
			broken[d.Name] = err.Error()
			continue
		}
		next := d.NextAt
		if !d.NextAt.After(d.Now) {
			var own []step
			own, next = stepsOf(d, cad)
			steps = append(steps, own...)
		}
		if !next.IsZero() {
			coming = append(coming, next.Sub(d.Now))
		}
	}
	return steps, coming
}

// stepsOf applies the policy of a schedule that is due, and returns what is to be done and its next tick.
func stepsOf(d pgstore.DueSchedule, cad *cadence.Cadence) (steps []step, next time.Time) {
	limit := 1
	if d.Rhythm.Misfire == string(client.MisfireAll) {
		limit = max(d.Rhythm.MisfireCap, 1)
	}
	due, next, missed := cad.Due(d.NextAt, d.Now, limit)
	if d.Rhythm.Misfire == string(client.MisfireSkip) && d.Now.Sub(due[0]) > fireGrace {
		due, missed = []time.Time{{}}, missed+1
	}
	old := d.NextAt
	for i, at := range due {
		to := next
		if i+1 < len(due) {
			to = due[i+1]
		}
		steps = append(steps, step{tick: pgstore.Tick{Name: d.Name, Fence: d.Fence, Old: old, New: to, At: at}, policy: d.Rhythm.Misfire})
		old = to
	}
	steps[0].missed = missed
	return steps, next
}

func (f *firing) cadence(r pgstore.Rhythm) (*cadence.Cadence, error) {
	key := fmt.Sprintf("%d %s %s", r.Every, r.Zone, r.Cron)
	if cad, ok := f.cadences[key]; ok {
		return cad, nil
	}
	cad, err := cadence.New(r.Every, r.Cron, r.Zone)
	if err != nil {
		return nil, err
	}
	if f.cadences == nil || len(f.cadences) >= maxCadences {
		f.cadences = map[string]*cadence.Cadence{}
	}
	f.cadences[key] = cad
	return cad, nil
}

// first returns when the alarm rings.
func (f *firing) first() (at time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alarm, !f.alarm.IsZero()
}

func (f *firing) arm(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarm = at
}

func (f *firing) count(fired, missed, failed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Fired += uint64(fired)
	f.stats.Missed += uint64(missed)
	f.stats.Failed += uint64(failed)
}

func (f *firing) read() ScheduleStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// sooner returns the earlier of two times, of which a may be zero: none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
