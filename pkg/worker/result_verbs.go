package worker

import (
	"context"
	"errors"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

var errNotCommitted = errors.New("FinishTx was called, its transaction did not commit")

// complete writes results. An id that is missing from the answer was fenced off, or was written by an earlier try whose
// reply was lost: its outcome tells.
func (r *results) complete(ctx context.Context, s *session, ds []*decision) error {
	done := make([]pgstore.Completion, len(ds))
	resent := false
	for i, d := range ds {
		done[i] = pgstore.Completion{Held: d.t.held(), Result: d.v.result}
		resent = resent || d.sent
	}
	accepted, err := r.w.claims.Finish(ctx, s.id, done)
	if err != nil {
		return err
	}
	if resent {
		if err := r.addWritten(ctx, s, ds, accepted); err != nil {
			return err
		}
	}
	for _, d := range ds {
		r.settled(d, accepted[d.t.row.ID])
	}
	return nil
}

// addWritten looks for what an earlier try has written: an outcome of this very claim.
func (r *results) addWritten(ctx context.Context, s *session, ds []*decision, accepted map[job.ID]bool) error {
	var missing []job.ID
	for _, d := range ds {
		if !accepted[d.t.row.ID] {
			missing = append(missing, d.t.row.ID)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	ended, err := r.w.claims.Outcomes(ctx, missing)
	if err != nil {
		return err
	}
	for _, d := range ds {
		if o, ok := ended[d.t.row.ID]; ok && o.Session == s.id && o.Fence == d.t.row.Fence {
			accepted[d.t.row.ID] = true
		}
	}
	return nil
}

// verify looks what the user's own transaction came to. It is over: the handler has returned.
func (r *results) verify(ctx context.Context, s *session, ds []*decision) error {
	ids := make([]job.ID, len(ds))
	for i, d := range ds {
		ids[i] = d.t.row.ID
	}
	ended, err := r.w.claims.Outcomes(ctx, ids)
	if err != nil {
		return err
	}
	for _, d := range ds {
		if o, ok := ended[d.t.row.ID]; ok && o.Session == s.id && o.Fence == d.t.row.Fence {
			d.v.verb, d.v.event, d.v.err = complete, EventCompleted, nil
			r.settled(d, true)
			r.passOn([]*decision{d}, locks(&d.t.row)) // freed by the user's commit
			r.aside(func() { r.w.notify(d.t.context(), d.t, &d.v) }, func() {})
			continue
		}
		v := d.v // what the handler returned stands, with the end of its context as the cause
		v.verify = false
		if v.verb == complete {
			v = judgeSafely(&d.t.row, d.t.backoff(), errNotCommitted, nil, d.v.failure.Ran)
		}
		r.aside(func() { r.w.notify(d.t.context(), d.t, &v) }, func() { r.submit(d.t, v) })
	}
	return nil
}

// aside calls hooks in a goroutine of their own, and then what follows: two that do not return would keep all other results
// of this process from being written. flush waits for it.
func (r *results) aside(hooks, then func()) {
	if r.w.cfg.OnError == nil && r.w.cfg.OnFinish == nil {
		then()
		return
	}
	r.land(0, -1)
	go func() {
		defer r.land(0, 1)
		defer then() // deferred: a hook may call runtime.Goexit
		hooks()
	}()
}

// retry puts jobs back. One that is missing from the answer was asked to cancel, or fenced off: burying it tells.
func (r *results) retry(ctx context.Context, s *session, ds []*decision) error {
	due, freed, err := r.w.claims.Retry(ctx, s.id, failures(ds))
	if err != nil {
		return err
	}
	r.passOn(ds, freed)
	r.w.closeRates(ctx, ds)
	for _, d := range ds {
		if at, ok := due[d.t.row.ID]; ok {
			r.settled(d, true)
			r.w.disp.dueAgain(d.t.row.Queue, at, d.v.failure.Wait)
			continue
		}
		if d.sent {
			r.settled(d, false) // written by an earlier try, or fenced off: either way it is not ours
			continue
		}
		v := d.v
		v.end(job.DeadCancelled, "cancelled", EventCancelled, job.ErrCancelled)
		r.submit(d.t, v)
	}
	return nil
}

func (r *results) bury(ctx context.Context, s *session, ds []*decision) error {
	b, err := r.w.claims.Bury(ctx, s.id, failures(ds))
	if err != nil {
		return err
	}
	r.passOn(ds, b.Freed)
	hints := make(map[string]*coord.Hint)
	for _, d := range ds {
		r.settled(d, b.Ended[d.t.row.ID] || d.sent)
		f, wanted := b.Failures[d.t.row.ID]
		switch {
		case wanted && f.ID.IsZero():
			r.aside(func() { r.w.failureNotAdded(d.t, &d.v, f) }, func() {})
		case wanted:
			// Its kind is not said: those of one queue are announced together. It is due since before this moment.
			hints[job.DefaultQueue] = &coord.Hint{Queue: job.DefaultQueue, Count: len(b.Failures), ReadyAt: time.Now().Add(r.w.client.IDs().Offset() - overlap)}
		}
	}
	if len(hints) > 0 {
		r.w.wakeOthers(ctx, hints)
	}
	return nil
}

// release gives jobs back and says so to other workers: this one may be on its way out.
func (r *results) release(ctx context.Context, s *session, ds []*decision) error {
	held := make([]pgstore.Held, len(ds))
	for i, d := range ds {
		held[i] = d.t.held()
	}
	due, freed, err := r.w.claims.Release(ctx, s.id, held, ds[0].wait, r.w.linger(ds[0]))
	if err != nil {
		return err
	}
	r.w.passes.owe(freed...)
	hints := make(map[string]*coord.Hint)
	for _, d := range ds {
		at, ok := due[d.t.row.ID]
		r.settled(d, ok || d.sent)
		if !ok {
			continue
		}
		if d.wait > 0 {
			r.w.disp.dueAgain(d.t.row.Queue, at, d.wait)
			continue
		}
		h := hints[d.t.row.Queue]
		if h == nil {
			h = &coord.Hint{Queue: d.t.row.Queue, ReadyAt: at}
			hints[d.t.row.Queue] = h
		}
		h.Count++
		if at.Before(h.ReadyAt) {
			h.ReadyAt = at
		}
	}
	if len(hints) > 0 {
		r.w.wakeOthers(ctx, hints)
	}
	return nil
}

func failures(ds []*decision) []pgstore.Failure {
	out := make([]pgstore.Failure, len(ds))
	for i, d := range ds {
		out[i] = d.v.failure
	}
	return out
}

// settled is the end of a task: its result is durable, or refused because the claim had ended.
func (r *results) settled(d *decision, accepted bool) {
	if !accepted {
		r.w.drop(d.t, job.ErrLeaseLost)
		return
	}
	r.w.tasks.remove(d.t)
	r.w.unkeep(d.t)
	r.w.limitedEnded(d.t.row.Queue)
	d.t.traceEnd(d.v.event, d.v.err)
	r.w.stats.count(d)
	r.w.events.send(Event{Type: d.v.event, Row: d.t.row, Err: d.v.err, Next: d.v.next()})
}

// flush waits until nothing is pending, at most until deadline; then what is left is given up. It returns how many
// results were given up, those of hooks that do not return apart. No more may be submitted.
func (r *results) flush(deadline time.Time) int {
	stop := time.AfterFunc(time.Until(deadline), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.giveUp = true
		r.cut() // a server that does not answer would hold each statement for its own limit, and this process with it
	})
	defer stop.Stop()
	over := false
	leave := time.AfterFunc(time.Until(deadline)+time.Second, func() {
		r.mu.Lock()
		over = true // only hooks can be left
		r.mu.Unlock()
		r.change.Broadcast()
	})
	defer leave.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for (len(r.pending) > 0 || r.flying > 0) && !over {
		r.change.Wait()
	}
	return r.lost
}

// finish ends the flushers: no more results will come.
func (r *results) finish() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.change.Broadcast()
}
