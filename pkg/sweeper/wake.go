package sweeper

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/pgstore"
)

const (
	// wakeGrace is how long a due job is left to the hint of whoever made it due.
	wakeGrace = 100 * time.Millisecond
	// wakeLimit is how many rows are looked at in each queue, priority and part, and how many jobs one hint announces.
	wakeLimit = 1000
	// wakeBundle is how much time one alarm covers: jobs that come due within it are announced together.
	wakeBundle = 5 * time.Millisecond
)

// wakeRange looks back over several rounds, so that a hint that is lost is sent again, and ahead beyond the next round.
func (s *Sweeper) wakeRange() pgstore.DueRange {
	return pgstore.DueRange{
		Window:  max(time.Second, 4*s.cfg.Wake),
		Grace:   wakeGrace,
		Horizon: s.cfg.Wake + s.cfg.Wake/10 + 250*time.Millisecond,
		Limit:   wakeLimit,
	}
}

// wakeOnce announces jobs that are due and that nobody has taken, and sets alarms for those that come due before the
// next round. It returns how many jobs it announced. A job is announced a few times at most: then it has left the
// window, and is left to the duty stragglers.
func (s *Sweeper) wakeOnce(ctx context.Context) (n int, err error) {
	if !s.bus.Enabled() {
		return 0, nil // nobody would hear it
	}
	queues, err := s.prompt.Due(ctx, s.wakeRange())
	if err != nil {
		return 0, err
	}
	if queues, err = fitting(ctx, s.prompt, queues); err != nil {
		return 0, err
	}
	now := time.Now()
	hints := map[string]coord.Hint{}
	var alarms []alarm
	for _, q := range queues {
		if q.Due > 0 {
			hints[q.Queue] = coord.Hint{Queue: q.Queue, Count: min(q.Due, wakeLimit), ReadyAt: q.Least, Again: true}
			n += q.Due
		}
		alarms = append(alarms, alarmsOf(q, now)...)
	}
	// The answer is all that is to come: what is no longer in it was claimed, cancelled or put off.
	s.alarms.set(alarms)
	_, _ = s.announce(ctx, hints)
	return n, nil
}

// announce sends hints. What is lost with Redis away is found by the next round, or by the workers' polls; the bus
// itself says in the log when Redis goes and comes, so most callers need not look at the error. It returns how many of the
// jobs found no idle worker.
func (s *Sweeper) announce(ctx context.Context, hints map[string]coord.Hint) (unmet int, err error) {
	if len(hints) == 0 {
		return 0, nil
	}
	all := make([]coord.Hint, 0, len(hints))
	for _, h := range hints {
		all = append(all, h)
	}
	return s.bus.Announce(ctx, all...)
}

// alarm is a hint to be sent at a local time.
type alarm struct {
	at   time.Time
	hint coord.Hint
}

// alarmsOf turns what comes due in a queue into alarms. answered is when the answer came, a little after its Now: an
// alarm rings a little late, never early, when the claim it causes would find nothing.
func alarmsOf(q pgstore.DueQueue, answered time.Time) []alarm {
	slices.SortFunc(q.Coming, time.Time.Compare)
	var out []alarm
	for _, ready := range q.Coming {
		at := answered.Add(ready.Sub(q.Now) + time.Millisecond)
		if last := len(out) - 1; last >= 0 && ready.Sub(out[last].hint.ReadyAt) <= wakeBundle && out[last].hint.Count < wakeLimit {
			out[last].at = at // when all of the bundle are due
			out[last].hint.Count++
			continue
		}
		out = append(out, alarm{at, coord.Hint{Queue: q.Queue, Count: 1, ReadyAt: ready}})
	}
	return out
}

// alarms are those that have not rung yet.
type alarms struct {
	mu   sync.Mutex
	next []alarm // by time
}

func (a *alarms) set(next []alarm) {
	slices.SortFunc(next, func(x, y alarm) int { return x.at.Compare(y.at) })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = next
}

// first returns the time of the next alarm; ok is false if there is none.
func (a *alarms) first() (at time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.next) == 0 {
		return time.Time{}, false
	}
	return a.next[0].at, true
}

// ripe takes out the alarms of now and before, as one hint for each queue.
func (a *alarms) ripe(now time.Time) map[string]coord.Hint {
	a.mu.Lock()
	defer a.mu.Unlock()
	hints := map[string]coord.Hint{}
	i := 0
	for ; i < len(a.next) && !a.next[i].at.After(now); i++ {
		h := a.next[i].hint
		if old, ok := hints[h.Queue]; ok {
			h.Count = min(h.Count+old.Count, wakeLimit)
			if old.ReadyAt.Before(h.ReadyAt) {
				h.ReadyAt = old.ReadyAt
			}
		}
		hints[h.Queue] = h
	}
	a.next = a.next[i:]
	return hints
}

// ring sends the hints whose time has come.
func (s *Sweeper) ring(ctx context.Context) { _, _ = s.announce(ctx, s.alarms.ripe(time.Now())) }
