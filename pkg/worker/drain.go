package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// quietRounds is how many claims in a row must find nothing, with nothing running, for a drain to be over.
const quietRounds = 2

// DrainOptions tune Drain.
type DrainOptions struct {
	// Timeout is how long the drain may take. Zero means 10s.
	Timeout time.Duration
	// Delayed makes scheduled and retrying jobs due at once, also those that fail during the drain.
	Delayed bool
}

// Drained counts what a drain did.
type Drained struct{ Completed, Retried, Snoozed, Discarded, Cancelled int64 }

// Drain runs the jobs that are due, in this process, and returns when nothing is left to do: for tests and one-off
// commands. It is refused with ErrRunning while Run or another Drain is active. When the time is over, running handlers
// are stopped, their jobs released, and ErrDrainTimeout is returned with the counts so far.
func (w *Worker) Drain(ctx context.Context, opts DrainOptions) (Drained, error) {
	if err := w.beginDrain(); err != nil {
		return Drained{}, err
	}
	defer w.endDrain()
	fill(&opts.Timeout, 10*time.Second)
	ctx, cancel := context.WithTimeoutCause(ctx, opts.Timeout, ErrDrainTimeout)
	defer cancel()
	bg, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if err := w.connect(bg); err != nil {
		return Drained{}, err
	}
	defer w.disconnect()
	w.openChildren()
	defer w.closeChildren()
	if _, err := w.openSession(ctx); err != nil {
		return Drained{}, fmt.Errorf("%w: %w", drainEnded(ctx), err)
	}
	before := w.drained()
	var loops, flushing sync.WaitGroup
	loops.Go(func() { w.keepSession(bg) })
	loops.Go(func() { w.runPasses(bg) })
	loops.Go(func() { w.runAdvice(bg) })
	writing := w.results.bound(bg)
	for range flushers {
		flushing.Go(func() { w.results.run(writing) })
	}
	err := w.drainRounds(ctx, opts.Delayed)
	closed := w.endRounds(bg, err)
	w.results.finish()
	flushing.Wait()
	stop()
	loops.Wait()
	if err == nil {
		err = closed
	}
	return w.drained().minus(before), err
}

func (w *Worker) beginDrain() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.draining, w.started && !w.ended:
		return ErrRunning
	case w.started:
		return ErrClosed
	}
	if len(w.handlers) == 0 {
		return errors.New("worker: no handler is registered")
	}
	if err := w.prepareModesLocked(); err != nil {
		return err
	}
	w.draining = true
	w.noteKinds()
	return nil
}

// endDrain makes the worker as new: it may be drained again, or run. Handlers that have ignored their contexts keep
// their slots until they return.
func (w *Worker) endDrain() {
	w.closing.Store(false)
	w.lanes.reopen()
	w.results.reopen()
	w.disp.restart()
	w.session.mu.Lock()
	w.session.current, w.session.closing, w.session.ended = nil, false, false
	w.session.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = false
}

// restart makes the dispatcher as new. Its goroutine has ended.
func (d *dispatcher) restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mark, d.pollAt, d.errors, d.busy, d.full = newWatermark(len(d.w.lanes.all)), time.Time{}, 0, false, false
	d.lowerAll, d.reconcile, d.due = true, false, time.Time{}
	clear(d.lowers)
	clear(d.taken)
	clear(d.registered)
	clear(d.low)
	clear(d.probes)
	clear(d.floors)
	clear(d.missing)
	clear(d.atLimit)
	clear(d.limitRoom)
	d.reminders, d.beaten = nil, 0
}

// drainRounds claims until two rounds in a row were quiet.
func (w *Worker) drainRounds(ctx context.Context, delayed bool) error {
	queues := make([]string, len(w.cfg.Queues))
	for i, q := range w.cfg.Queues {
		queues[i] = q.Name
	}
	for quiet := 0; quiet < quietRounds; {
		if ctx.Err() != nil {
			return drainEnded(ctx)
		}
		made := 0
		if delayed {
			var err error
			if made, err = w.claims.MakeDue(ctx, queues, w.kinds()); err != nil {
				w.trouble("drain", err)
				sleep(ctx, 50*time.Millisecond)
				continue
			}
		}
		w.disp.clear()
		w.disp.mark.reset() // a drain looks at everything each time
		if _, err := w.disp.step(context.WithoutCancel(ctx)); err != nil {
			w.disp.afterError(ctx, err)
			continue
		}
		if w.tasks.len() == 0 && made == 0 && w.passes.idle() {
			quiet++
			continue
		}
		quiet = 0
		w.awaitTasks(ctx)
	}
	return nil
}

// drainEnded tells the end of the drain's time from the end of the caller's context.
func drainEnded(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrDrainTimeout) {
		return ErrDrainTimeout
	}
	return fmt.Errorf("drain: %w", context.Cause(ctx))
}

// awaitTasks waits until nothing is held, or a slot was freed, or ctx ends.
func (w *Worker) awaitTasks(ctx context.Context) {
	for ctx.Err() == nil && w.tasks.len() > 0 {
		limit, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		select {
		case <-limit.Done():
		case <-w.disp.wake:
			cancel()
			return
		}
		cancel()
	}
}

// endRounds is close without a grace: nothing runs, or the time is over.
func (w *Worker) endRounds(ctx context.Context, err error) error {
	if err != nil {
		w.stopHandlers()
	}
	return w.close(ctx, lateReturn)
}

func (w *Worker) drained() Drained {
	c := &w.stats
	return Drained{c.completed.Load(), c.retried.Load(), c.snoozed.Load(), c.discarded.Load(), c.cancelled.Load()}
}

func (d Drained) minus(b Drained) Drained {
	return Drained{
		d.Completed - b.Completed, d.Retried - b.Retried, d.Snoozed - b.Snoozed, d.Discarded - b.Discarded,
		d.Cancelled - b.Cancelled,
	}
}

// Perform runs one job through the real execution path, middleware, timeout and verdict included, without a database:
// for package weirtest. It returns the verdict's next state, the encoded result and the error.
func (w *Worker) Perform(ctx context.Context, row job.Row) (next Next, result []byte, err error) {
	h, ok := w.handlers[row.Kind]
	if !ok {
		return Next{}, nil, &job.FieldError{Field: "kind", Got: row.Kind, Limit: "a kind with a handler"}
	}
	ses := &session{id: w.client.IDs().New()}
	ses.ctx, ses.cancel = context.WithCancelCause(ctx)
	defer ses.cancel(nil)
	t := &task{worker: w, row: row, handler: h, session: ses, freed: true}
	got := make(chan verdict, 1)
	t.verdicts = got
	go func() {
		defer w.settle(t, nil, &job.PanicError{})
		w.execute(t)
	}()
	v := <-got
	return v.next(), v.result, v.err
}
