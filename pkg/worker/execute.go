package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// task is one claimed job in this process, from the claim until its result is durable.
type task struct {
	worker  *Worker
	row     job.Row
	handler *handler
	session *session
	alone   bool        // it has one lock, and was taken without asking Redis since nobody else wanted that
	hot     atomic.Bool // others wait for its keys: its slot is kept for the next until its end is written

	mu       sync.Mutex
	cancel   context.CancelCauseFunc                  // nil until the handler starts
	stopped  error                                    // a cause that came before that
	started  time.Time                                // of the handler
	decided  bool                                     // a verdict was given: by its return, by abandonment, or by release
	finished bool                                     // FinishTx was called without error
	freed    bool                                     // its slot was given back
	kept     bool                                     // its slot is kept for what follows it
	spans    *spans                                   // nil: nobody wants any
	silent   bool                                     // guarded by reports.mu: its handler has returned, what it still says counts no more
	ctx      context.Context                          // the handler's, for the hooks and the cause; nil before it starts
	giveUp   *time.Timer                              // abandons a handler that ignores its timeout
	say      func(kind byte, header any, body []byte) // in a child: tells the worker; nil elsewhere
	verdicts chan<- verdict                           // Perform's: the verdict goes there instead of to the database
}

// run executes t and then whatever may start in its place, until nothing may.
func (w *Worker) run(t *task) {
	defer w.crew.leave()
	for t != nil {
		t = w.runOne(t)
	}
}

// runOne executes t and returns the task that takes its slot. When the handler calls runtime.Goexit this goroutine
// ends in the deferred function, and the next task gets a goroutine of its own.
func (w *Worker) runOne(t *task) (next *task) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if !t.isDecided() {
			w.settle(t, nil, &job.PanicError{}) // Goexit: neither returned nor panicked
		}
		if next = w.freeSlot(t); next != nil {
			w.start(next)
		}
	}()
	w.execute(t)
	returned = true
	return w.freeSlot(t)
}

// start runs t in a goroutine of its own.
func (w *Worker) start(t *task) {
	w.crew.join()
	go w.run(t)
}

// execute calls the handler within its context: the values that client.FromContext and Logger read, the timeout from
// now, and the end of the session. The verdict is given before that context is taken down: its cause is evidence.
func (w *Worker) execute(t *task) {
	var result []byte
	timeout := t.timeout(w.cfg.Timeout)
	ctx, cancel := context.WithCancelCause(t.session.ctx)
	defer cancel(nil)
	t.mu.Lock()
	t.cancel, t.started = cancel, time.Now()
	switch {
	case t.stopped != nil:
		cancel(t.stopped)
	case t.stopsOnDoubt() && t.session.doubt.Load(): // after cancel was set: the watchdog sees one or the other
		cancel(job.ErrLeaseLost)
	}
	t.mu.Unlock()
	ctx = client.WithJob(context.WithValue(ctx, taskKey{}, t), w.client, t.row.ID, t.row.Trace)
	ctx = w.traceStart(ctx, t)
	t.mu.Lock()
	t.ctx = ctx
	t.mu.Unlock()
	at, err := w.place(ctx, t)
	if err != nil {
		w.settle(t, nil, err)
		return
	}
	defer at.free()
	if timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, timeout, job.ErrTimeout)
		defer stop()
		overdue := time.AfterFunc(timeout, func() { w.overdue(t) })
		defer overdue.Stop()
	}
	t.mu.Lock()
	t.ctx, t.started = ctx, time.Now()
	t.mu.Unlock()
	w.events.send(Event{Type: EventClaimed, Row: t.row})
	row := t.row // a copy: what middleware changes in it reaches the handler, not the fence that the result is written with
	err = chain(ctx, &row, at.around, func(ctx context.Context) (err error) {
		defer recoverInto(&err)
		result, err = at.call(ctx, t, row)
		return err
	})
	w.settle(t, result, err)
}

// chain calls middleware from the first to the last and then call. A panic in a middleware is the attempt's failure.
func chain(ctx context.Context, row *job.Row, middleware []Middleware, call func(context.Context) error) (err error) {
	if len(middleware) == 0 {
		return call(ctx)
	}
	defer recoverInto(&err)
	return middleware[0](ctx, row, func(ctx context.Context) error {
		return chain(ctx, row, middleware[1:], call)
	})
}

func recoverInto(err *error) {
	if r := recover(); r != nil {
		*err = &job.PanicError{Value: r, Stack: job.SanitizeText(string(debug.Stack()), job.MaxStackBytes)}
	}
}

// timeout is the row's, else the handler's, else the worker's; zero is none.
func (t *task) timeout(fallback time.Duration) time.Duration {
	for _, d := range []time.Duration{t.row.Timeout, t.handler.timeout, fallback} {
		if d == job.NoTimeout {
			return 0
		}
		if d > 0 {
			return d
		}
	}
	return 0
}

func (t *task) backoff() job.Backoff {
	if !t.row.Backoff.IsZero() {
		return t.row.Backoff
	}
	return t.handler.backoff
}

// decide gives the verdict unless one was given; the first one counts.
func (t *task) decide() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.decided {
		return false
	}
	t.decided = true
	return true
}

// settle decides about an attempt whose handler has ended and hands the verdict to the result writer.
func (w *Worker) settle(t *task, result []byte, err error) {
	w.reports.end(t)
	if !t.decide() {
		w.stats.late.Add(1)
		return // abandoned or released before: this return changes nothing
	}
	t.mu.Lock()
	ctx, ran, finished := t.ctx, time.Since(t.started), t.finished
	if t.giveUp != nil {
		t.giveUp.Stop()
	}
	t.mu.Unlock()
	t.traceReturn(err)
	cause := context.Cause(ctx)
	v := judgeSafely(&t.row, t.backoff(), err, cause, ran)
	v.result = result
	if v.wait > 0 {
		w.reportInfra(t, err)
	}
	if v.warning != "" {
		w.log.Warn(v.warning, "job", t.row.ID, "kind", t.row.Kind)
	}
	// What follows the hooks is deferred: one that calls runtime.Goexit must not lose the result.
	switch {
	case t.verdicts != nil:
		defer w.submit(t, v)
	case errors.Is(cause, job.ErrLeaseLost):
		v = verdict{verb: release, event: EventLeaseLost, err: job.ErrLeaseLost}
		defer w.drop(t, cause)
	case finished:
		v.verify = true // the user's transaction decided: the hooks hear what it came to when that was looked up
		w.submit(t, v)
		return
	default:
		defer w.submit(t, v)
	}
	w.notify(ctx, t, &v)
}

// submit hands a verdict on.
func (w *Worker) submit(t *task, v verdict) {
	if t.verdicts != nil {
		t.verdicts <- v
		return
	}
	w.keepSlot(t, &v)
	w.results.submit(t, v)
}

// freeSlot gives the slot of t back, once, and returns the task that takes it.
func (w *Worker) freeSlot(t *task) *task {
	t.mu.Lock()
	freed := t.freed
	t.freed = true
	t.mu.Unlock()
	if freed {
		return nil
	}
	next := w.lanes.done(t, time.Now())
	w.disp.slotFreed()
	return next
}

// overdue runs when a timeout passes with the handler still in it: the context is cancelled by its own deadline, all
// the world can see it, and after one more lease the attempt is given up.
func (w *Worker) overdue(t *task) {
	t.mu.Lock()
	over := t.decided
	if !over {
		t.giveUp = time.AfterFunc(w.cfg.Lease, func() { w.abandon(t) })
	}
	t.mu.Unlock()
	if over {
		return
	}
	w.stats.timingOut.Add(1)
	w.events.send(Event{Type: EventTimingOut, Row: t.row, Err: job.ErrTimeout})
	// Give a handler that obeys its context a moment before anything is written.
	time.AfterFunc(50*time.Millisecond, func() {
		// Nor is it after FinishTx: the handler's transaction has the row, and would keep a connection of ours for as long.
		if t.isDecided() || t.isFinished() || t.verdicts != nil {
			return
		}
		if err := w.claims.TimingOut(context.WithoutCancel(t.session.ctx), t.session.id, []pgstore.Held{t.held()}); err != nil {
			w.log.Warn("mark timing out", "job", t.row.ID, "error", err)
		}
	})
}

// abandon writes a timed-out attempt whose handler did not return, and frees its slot. The goroutine goes on; what it
// returns is not looked at.
func (w *Worker) abandon(t *task) {
	if !t.decide() {
		return
	}
	w.stats.abandoned.Add(1)
	w.log.Error("handler ignores its context: attempt given up", "job", t.row.ID, "kind", t.row.Kind)
	defer func() { // deferred, as in settle
		if next := w.freeSlot(t); next != nil {
			w.start(next)
		}
	}()
	err := fmt.Errorf("%w: the handler ignored its context for another %v", job.ErrTimeout, w.cfg.Lease)
	v := judge(&t.row, t.backoff(), err, job.ErrTimeout, time.Since(t.started))
	w.events.send(Event{Type: EventAbandoned, Row: t.row, Err: err, Next: v.next()})
	defer w.submit(t, v)
	w.notify(t.context(), t, &v)
}

// context is the handler's, or its session's before it has one.
func (t *task) context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil {
		return t.session.ctx
	}
	return t.ctx
}

func (t *task) isDecided() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.decided
}

func (t *task) isFinished() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.finished
}

// finishTx is Job.FinishTx.
func (t *task) finishTx(ctx context.Context, tx pgx.Tx, result []byte) error {
	err := t.worker.client.Store().On(tx).FinishTx(ctx, t.session.id, t.held(), result)
	if errors.Is(err, pgstore.ErrSessionLost) {
		return fmt.Errorf("finish in transaction: %w", job.ErrLeaseLost)
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.finished = true
	t.mu.Unlock()
	return nil
}
