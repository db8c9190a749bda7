package worker

import (
	"context"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// reconcileSoon asks for a comparison of our tasks with the database's account, before the next claim.
func (d *dispatcher) reconcileSoon() {
	d.mu.Lock()
	d.reconcile = true
	d.mu.Unlock()
	d.signal()
}

// settleTakes is how long a comparison waits for statements that may have made rows ours.
const settleTakes = time.Second

func (d *dispatcher) takeReconcile() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.reconcile
	d.reconcile = false
	return again
}

// reconcileHeld gives back what the database counts as ours and we do not know: a claim that was committed after its
// reply was lost (orphans). Only the dispatcher's goroutine claims, and what may have been handed over meanwhile is waited for,
// so no answer is on its way; the tasks are looked at after the rows, and the release is fenced: what a result or a newer
// claim has changed meanwhile is not touched. Their keys stay theirs for as long as a reservation stands, so that they
// keep their places.
func (d *dispatcher) reconcileHeld(ctx context.Context, s *session) error {
	held, err := d.w.claims.Held(ctx, s.id)
	if err != nil {
		d.reconcileSoon()
		return err
	}
	unknown := d.unknown(held)
	if len(unknown) > 0 && d.w.takes.settle(settleTakes) {
		unknown = d.unknown(unknown)
	} else {
		unknown = nil // the next renewal asks again
	}
	if len(unknown) == 0 {
		return nil
	}
	due, freed, err := d.w.claims.Release(ctx, s.id, unknown, 0, d.w.reservation())
	if err != nil {
		d.reconcileSoon()
		return err
	}
	d.w.passes.owe(freed...)
	d.w.stats.orphans.Add(int64(len(due)))
	d.w.log.Warn("gave back jobs whose claim had lost its reply", "jobs", len(due))
	for _, at := range due {
		for lane := range d.w.lanes.all {
			d.mu.Lock()
			d.lowerLocked(lane, at)
			d.mu.Unlock()
		}
	}
	return nil
}

// unknown returns those of held that are no task of ours.
func (d *dispatcher) unknown(held []pgstore.Held) (out []pgstore.Held) {
	for _, h := range held {
		if t := d.w.tasks.get(h.ID); t == nil || t.row.Fence != h.Fence {
			out = append(out, h)
		}
	}
	return out
}

// reconcileLast resolves a claim whose reply was lost, after the last one. It takes five seconds at most: if the database
// is away, the lease decides.
func (d *dispatcher) reconcileLast(ctx context.Context) {
	s := d.w.live()
	if s == nil || !d.takeReconcile() {
		return
	}
	limit, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		err := d.reconcileHeld(limit, s)
		if err == nil || limit.Err() != nil {
			return
		}
		sleep(limit, jitter(wait))
	}
}

// sessionChanged wakes the dispatcher: a new session claims from the start.
func (d *dispatcher) sessionChanged() { d.lookAtAll() }
