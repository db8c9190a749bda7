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

func (d *dispatcher) takeReconcile() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.reconcile
	d.reconcile = false
	return again
}

// reconcileHeld gives back what the database counts as ours and we do not know: a claim that was committed after its
// reply was lost (orphans). Only the dispatcher's goroutine claims, so no answer is on its way; the tasks are looked at
// after the rows, and the release is fenced: what a result or a newer claim has changed meanwhile is not touched.
func (d *dispatcher) reconcileHeld(ctx context.Context, s *session) error {
	held, err := d.w.claims.Held(ctx, s.id)
	if err != nil {
		d.reconcileSoon()
		return err
	}
	var unknown []pgstore.Held
	for _, h := range held {
		if t := d.w.tasks.get(h.ID); t == nil || t.row.Fence != h.Fence {
			unknown = append(unknown, h)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	due, err := d.w.claims.Release(ctx, s.id, unknown, 0)
	if err != nil {
		d.reconcileSoon()
		return err
	}
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
