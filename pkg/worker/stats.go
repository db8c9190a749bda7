package worker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// Stats are this process' counts since its start, for metrics and health checks.
type Stats struct {
	Completed, Retried, Snoozed, Discarded, Cancelled, Released int64
	Claims                                                      int64 // claim statements
	Looks                                                       int64 // turns of the claiming loop, also those without a claim
	Admits, Admitted, Blocked, Throttled                        int64 // rounds of jobs with keys, and what became of those
	Passes, Passed, HandedOver, Reserved                        int64 // keys looked at, jobs started so, or with the end of another; next in line for another
	Contended                                                   int64 // claims that gave way to many others at one queue
	Refused                                                     int64 // results that came after their claim had ended
	TimingOut, Abandoned                                        int64
	Late                                                        int64 // handlers that returned after their attempt had been given up
	Orphans                                                     int64 // jobs given back since their claim's reply was lost
	LostEvents                                                  int64 // of slow subscribers
	DroppedHints                                                int64
	Running, Slots, Held, Unwritten                             int
	RenewLag                                                    time.Duration // of the last renewal
	RenewedAt, PolledAt                                         time.Time     // local; zero: never
	Session                                                     string
}

type counters struct {
	completed, retried, snoozed, discarded, cancelled, released              atomic.Int64
	claims, looks, leaseLost, timingOut, abandoned, orphans, late, contended atomic.Int64
	hintsDropped, renewLag, lastPoll                                         atomic.Int64
	admits, admitted, blocked, throttled, passes, passed, handed, reserved   atomic.Int64

	mu       sync.Mutex
	troubles map[string]bool
}

func (c *counters) count(d *decision) {
	switch d.v.event {
	case EventCompleted:
		c.completed.Add(1)
	case EventRetried:
		c.retried.Add(1)
	case EventSnoozed:
		c.snoozed.Add(1)
	case EventDiscarded:
		c.discarded.Add(1)
	case EventCancelled:
		c.cancelled.Add(1)
	case EventReleased:
		c.released.Add(1)
	}
}

// Stats returns the counts. They are read one after the other, not at one instant.
func (w *Worker) Stats() Stats {
	c := &w.stats
	s := Stats{
		Completed: c.completed.Load(), Retried: c.retried.Load(), Snoozed: c.snoozed.Load(), Discarded: c.discarded.Load(),
		Cancelled: c.cancelled.Load(), Released: c.released.Load(), Claims: c.claims.Load(), Looks: c.looks.Load(),
		Admits: c.admits.Load(), Admitted: c.admitted.Load(), Blocked: c.blocked.Load(), Throttled: c.throttled.Load(),
		Passes: c.passes.Load(), Passed: c.passed.Load(), HandedOver: c.handed.Load(), Reserved: c.reserved.Load(), Contended: c.contended.Load(), Refused: c.leaseLost.Load(),
		TimingOut: c.timingOut.Load(), Abandoned: c.abandoned.Load(), Orphans: c.orphans.Load(),
		Late: c.late.Load(), LostEvents: w.events.lost.Load(), DroppedHints: c.hintsDropped.Load(), RenewLag: time.Duration(c.renewLag.Load()),
		Held: w.tasks.len(), Unwritten: w.results.len(),
	}
	s.Running, s.Slots = w.lanes.busy()
	w.session.mu.Lock()
	s.RenewedAt = w.session.sent
	if w.session.current != nil {
		s.Session = w.session.current.id.String()
	}
	w.session.mu.Unlock()
	if at := c.lastPoll.Load(); at != 0 {
		s.PolledAt = time.Unix(0, at)
	}
	return s
}

// trouble logs when something begins to fail, not on each try.
func (w *Worker) trouble(what string, err error) {
	w.stats.mu.Lock()
	if w.stats.troubles == nil {
		w.stats.troubles = make(map[string]bool)
	}
	known := w.stats.troubles[what]
	w.stats.troubles[what] = true
	w.stats.mu.Unlock()
	if !known {
		w.log.Warn(what+" does not work; trying on", "error", err)
		w.events.send(Event{Type: EventError, Err: err})
	}
}

// recovered logs when it works again, and reports whether it had not.
func (w *Worker) recovered(what string) (was bool) {
	w.stats.mu.Lock()
	known := w.stats.troubles[what]
	delete(w.stats.troubles, what)
	w.stats.mu.Unlock()
	if known {
		w.log.Info(what + " works again")
	}
	return known
}

// resetPools closes our connections when they lead to a server that takes no writes any more: the next are fresh.
func (w *Worker) resetPools(err error) {
	if !pgstore.IsReadOnly(err) {
		return
	}
	w.mu.Lock()
	pools := w.pools
	w.mu.Unlock()
	for _, p := range pools {
		p.Reset()
	}
}

type taskKey struct{}

// Logger returns the worker's logger with the job's id, kind and attempt, in a handler's context or one made from it;
// elsewhere slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	t, ok := ctx.Value(taskKey{}).(*task)
	if !ok || t.worker == nil {
		return slog.Default()
	}
	return t.worker.log.With("job", t.row.ID.String(), "kind", t.row.Kind, "attempt", t.row.Attempt)
}
