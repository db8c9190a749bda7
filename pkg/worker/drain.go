package worker

import (
	"context"
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
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	bg, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if err := w.connect(bg); err != nil {
		return Drained{}, err
	}
	defer w.disconnect()
	if _, err := w.openSession(ctx); err != nil {
		return Drained{}, fmt.Errorf("%w: %w", ErrDrainTimeout, err)
	}
	before := w.drained()
	var loops, flushing sync.WaitGroup
	loops.Go(func() { w.keepSession(bg) })
	for range flushers {
		flushing.Go(func() { w.results.run(bg) })
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
	if w.started || w.draining {
		return ErrRunning
	}
	if len(w.handlers) == 0 {
		return fmt.Errorf("worker: no handler is registered")
	}
	w.draining = true
	return nil
}

// endDrain makes the worker as new: it may be drained again, or run.
func (w *Worker) endDrain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = false
	w.closing.Store(false)
	w.lanes = newLanes(w.cfg.Queues, w.cfg.Concurrency)
	w.disp = newDispatcher(w)
	w.results = results{}
	w.results.init(w)
	w.session.mu.Lock()
	w.session.current, w.session.closing = nil, false
	w.session.mu.Unlock()
}

// drainRounds claims until two rounds in a row were quiet.
func (w *Worker) drainRounds(ctx context.Context, delayed bool) error {
	queues := make([]string, len(w.cfg.Queues))
	for i, q := range w.cfg.Queues {
		queues[i] = q.Name
	}
	for quiet := 0; quiet < quietRounds; {
		if ctx.Err() != nil {
			return ErrDrainTimeout
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
		if _, err := w.disp.step(ctx); err != nil {
			w.disp.afterError(ctx, err)
			continue
		}
		if w.tasks.len() == 0 && made == 0 {
			quiet++
			continue
		}
		quiet = 0
		w.awaitTasks(ctx)
	}
	return nil
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

// endRounds is close with no grace: nothing runs, or the time is over.
func (w *Worker) endRounds(ctx context.Context, err error) error {
	if err != nil {
		w.stopHandlers()
	}
	grace := w.cfg.Grace
	w.cfg.Grace = lateReturn
	defer func() { w.cfg.Grace = grace }()
	return w.close(ctx)
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
