package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/internal/child"
	"github.com/weirq/weir/pkg/job"
)

// children are the child processes of a worker.
type children struct {
	launcher *child.Launcher
	seats    chan struct{} // one for each forked child that is at work
	fails    atomic.Int64  // troubles of this host in a row

	mu       sync.Mutex
	idle     []*kid // the one that was at work last comes last, and is taken first
	closed   bool
	retiring sync.WaitGroup
}

// openChildren makes ready for children; the supervisor is started with the first of them.
func (w *Worker) openChildren() {
	c := &w.children
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launcher, c.closed, c.idle = new(child.Launcher), false, nil
	c.seats = make(chan struct{}, w.cfg.Children.Count)
}

// closeChildren ends all children. No job is with one any more, but for those that were given up: they are killed.
func (w *Worker) closeChildren() {
	c := &w.children
	c.mu.Lock()
	c.closed = true
	idle := c.idle
	c.idle = nil
	for _, k := range idle {
		k.quit(&c.retiring)
	}
	c.mu.Unlock()
	c.retiring.Wait()
	c.launcher.Close()
}

// Supervisor returns the process id of the supervisor of this worker's children, for tools; 0 while there is none.
func (w *Worker) Supervisor() int {
	w.children.mu.Lock()
	l := w.children.launcher
	w.children.mu.Unlock()
	if l == nil {
		return 0
	}
	return l.Supervisor()
}

// childTries is how many children are tried for a job before the trouble counts as this host's.
const childTries = 3

// inChild runs t in a child process of mode.
func (w *Worker) inChild(ctx context.Context, t *task, row *job.Row, k *kid) (result []byte, err error) {
	for try := 1; ; try++ {
		var d *done
		result, d, err = k.run(ctx, t, row)
		w.giveBackKid(k, d != nil)
		if d != nil {
			w.childWorks()
			if d.Finished {
				t.mu.Lock()
				t.finished = true
				t.mu.Unlock()
			}
			return result, err
		}
		var infra *infraError
		switch {
		case errors.As(err, &infra):
			return nil, w.infra("run in a child", infra.err)
		case !errors.Is(err, errNotBegun):
			return nil, err // a failed attempt
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case try == childTries:
			return nil, w.infra("run in a child", err)
		}
		if k, err = w.takeKid(ctx, k.mode, row.Kind); err != nil {
			return nil, err
		}
	}
}

// takeKid returns a child for a job: a warm one if there is one, of a mode that allows it. The error is the cause of ctx if
// that has ended, else trouble of this host.
func (w *Worker) takeKid(ctx context.Context, mode job.Mode, kind string) (k *kid, err error) {
	c := &w.children
	if mode == job.Forked {
		select {
		case c.seats <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if k = c.warm(); k != nil {
			return k, nil
		}
	}
	k, err = w.startKid(ctx, mode, kind)
	if err == nil {
		w.childWorks()
		return k, nil
	}
	if mode == job.Forked {
		<-c.seats
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, w.infra("start a child", err)
}

// warm takes an idle child that is still there.
func (c *children) warm() *kid {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		k := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		if k.alive() && k.aged.Stop() {
			return k
		}
		k.quit(&c.retiring)
	}
	return nil
}

// giveBackKid keeps a child for the next job, or ends it.
func (w *Worker) giveBackKid(k *kid, works bool) {
	c := &w.children
	c.mu.Lock()
	left := w.cfg.Children.MaxAge - time.Since(k.born)
	tired := k.mode == job.Spawned || k.left || left <= 0 || k.jobs >= w.cfg.Children.MaxJobs ||
		w.cfg.Children.MaxRSS > 0 && k.rss > w.cfg.Children.MaxRSS/2
	switch {
	case c.closed:
		k.proc.Kill() // given up with the worker: nobody waits any more
		k.drop()
	case !works || tired:
		k.quit(&c.retiring)
	default:
		k.aged = time.AfterFunc(left, func() { c.age(k) })
		c.idle = append(c.idle, k)
	}
	c.mu.Unlock()
	if k.mode == job.Forked {
		<-c.seats
	}
}

// age ends an idle child that has lived long enough.
func (c *children) age(k *kid) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := slices.Index(c.idle, k); at >= 0 {
		c.idle = slices.Delete(c.idle, at, at+1)
		k.quit(&c.retiring)
	}
}
