package worker

import (
	"context"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// lateReturn is how long handlers have to return after their contexts ended at the end of the grace.
const lateReturn = 5 * time.Second

// exitMargin is how much later than ExitsBy a job whose handler did not return may start elsewhere.
const exitMargin = 2 * time.Second

// close ends what the dispatcher began, after it has stopped: everything claimed is finished, released, or left to the
// lease. The order matters: results are flushed while the lease is still renewed.
func (w *Worker) close(ctx context.Context, grace time.Duration) error {
	begun := time.Now()
	w.closing.Store(true)
	w.session.mu.Lock()
	w.session.closing = true
	w.session.mu.Unlock()
	w.kickSession() // everyone sees "draining"
	w.leaveAll(ctx)
	w.disp.reconcileLast(ctx)
	w.lanes.close()
	w.giveBack(w.lanes.takeWaiting(func(*task) bool { return false }))
	if !w.crew.wait(grace) {
		w.stopHandlers()
		limit := min(lateReturn, max(w.cfg.ExitsBy-time.Since(begun)-exitMargin, 100*time.Millisecond))
		if !w.crew.wait(limit) {
			w.giveUpRunning(max(w.cfg.ExitsBy-time.Since(begun), 0) + exitMargin)
		}
	}
	deadline := begun.Add(max(w.cfg.ExitsBy, grace+lateReturn))
	lost := w.flushAll(later(deadline, time.Now().Add(lateReturn)))
	if s := w.endSession(); s != nil {
		lost += w.tasks.countOf(s) // their handlers have returned, and are in hooks that have not
		limit, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := w.renewal.CloseSession(limit, s.id); err != nil {
			w.log.Warn("close session", "error", err)
		}
		s.watch.Stop()
		s.cancel(job.ErrShutdown)
	}
	if lost > 0 {
		return &UnflushedError{N: lost}
	}
	return nil
}

// flushAll writes results, passes on the keys that they free, and tells Redis. A key that was being passed on to this process
// as it began to close comes back as a result.
func (w *Worker) flushAll(deadline time.Time) (lost int) {
	lost = w.results.flush(deadline)
	w.passes.flush(deadline)
	if w.results.len() > 0 {
		lost = w.results.flush(deadline)
		w.passes.flush(deadline)
	}
	w.advice.flush(earlier(deadline, time.Now().Add(time.Second)))
	return lost
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// leaveAll takes this worker out of every idle set (closeForward): hints that still come are passed on, and so are those
// that came and that no claim has looked after.
func (w *Worker) leaveAll(ctx context.Context) {
	queues := make([]string, len(w.lanes.all))
	for i, n := range w.lanes.all {
		queues[i] = n.name
	}
	if err := w.bus.Leave(ctx, w.name(), queues, w.disp.unserved()...); err != nil {
		w.trouble("redis", err)
	}
}

// stopHandlers ends the contexts of all handlers with job.ErrShutdown.
func (w *Worker) stopHandlers() {
	if s := w.live(); s != nil {
		for _, t := range w.tasks.of(s) {
			t.stop(job.ErrShutdown)
		}
	}
}

// giveUpRunning releases jobs whose handlers did not return, due after wait: this process is gone then. With Abandon
// they are left to the lease.
func (w *Worker) giveUpRunning(wait time.Duration) {
	s := w.live()
	if s == nil {
		return
	}
	n := 0
	for _, t := range w.tasks.of(s) {
		if !t.isStarted() || !t.decide() {
			continue
		}
		n++
		if w.cfg.Abandon {
			w.tasks.remove(t)
			continue
		}
		v := verdict{verb: release, event: EventReleased, err: job.ErrShutdown}
		w.results.add(&decision{t: t, v: v, wait: wait})
		w.results.aside(func() { w.notify(t.context(), t, &v) }, func() {})
	}
	if n > 0 {
		w.log.Error("handlers did not return in time", "jobs", n, "due again in", wait)
	}
}

func (t *task) isStarted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cancel != nil
}
