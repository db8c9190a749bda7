package client

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// Enqueue stores a job and returns once it is committed. Options given later win over earlier ones, field by field, and
// all of them over those of the args type.
//
// A value that Weir refuses is a *job.FieldError, and nothing was sent. If ctx ends before the job was sent, nothing
// was stored and the error is ctx's. If it ends while the job is on its way the error is an *UnknownError, at once. While
// there is no connection to be had Enqueue tries again for Config.Timeout.
//
// Concurrent calls share a statement, without waiting for one another. A unique job has one of its own: it may have to wait for
// the end of a transaction that has its key, for Config.Timeout at most (ErrUndecided).
func (c *Client) Enqueue(ctx context.Context, args job.Args, options ...job.Options) (Enqueued, error) {
	if err := c.enter(); err != nil {
		return Enqueued{}, err
	}
	defer c.leave()
	if c.cfg.Tracing == nil {
		return c.enqueueOne(ctx, args, options)
	}
	ctx, end := c.traced(ctx, traceName(args), 1)
	e, err := c.enqueueOne(ctx, args, options)
	end([]Enqueued{e}, err)
	return e, err
}

func (c *Client) enqueueOne(ctx context.Context, args job.Args, options []job.Options) (Enqueued, error) {
	if ctx.Err() != nil {
		return Enqueued{}, fmt.Errorf("enqueue: %w", ended(ctx))
	}
	d, err := c.draft(ctx, args, options...)
	if err != nil {
		return Enqueued{}, err
	}
	if d.job.Unique != nil {
		return c.enqueueAlone(ctx, d)
	}
	one := []draft{d}
	if err := c.ready(ctx, one); err != nil {
		return Enqueued{}, err
	}
	e := &entry{draft: one[0], deadline: time.Now().Add(c.cfg.Timeout), done: make(chan struct{})}
	c.queue.add(e)
	select {
	case <-e.done:
	case <-ctx.Done():
		c.queue.leave(e, ended(ctx))
	}
	if e.err != nil {
		return Enqueued{}, e.err
	}
	return e.result, nil
}
