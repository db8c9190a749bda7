package client

import (
	"context"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// QueueInfo is a queue at a glance: its depth, who serves it, and what ended within the last hour.
type QueueInfo = pgstore.QueueDepth

// WorkerInfo is a process that was not given up, a worker or a sweeper.
type WorkerInfo = pgstore.WorkerRow

// KindInfo is a kind that a live process knows or that is paused.
type KindInfo = pgstore.KindRow

// Overview is what Queues returns.
type Overview struct {
	Queues []QueueInfo
	// Counted is how long ago the depths were counted, on the database clock.
	Counted time.Duration
	// Estimated says that Done and Failed are estimates, since much has ended lately. Depths are, when some 100,000 jobs or
	// more are live.
	Estimated bool
}

// stale is how old counts may be; without a sweeper nobody else counts.
const stale = 15 * time.Second

// Queues returns every queue that has jobs, is served or is paused. Depths are those that the sweeper counts every 10 s; if
// no sweeper did lately, they are counted now.
func (c *Client) Queues(ctx context.Context) (o Overview, err error) {
	if err := c.enter(); err != nil {
		return o, err
	}
	defer c.leave()
	counted := false
	if o.Counted, counted, err = c.store.Counted(ctx); err != nil {
		return o, err
	}
	if !counted || o.Counted > stale {
		// An error leaves the old counts: a role that may only read, a standby.
		if _, err := c.store.Count(ctx, stale); err == nil {
			if o.Counted, _, err = c.store.Counted(ctx); err != nil {
				return o, err
			}
		}
	}
	o.Queues, o.Estimated, err = c.store.Queues(ctx)
	return o, err
}

// Workers returns the processes that were not given up, workers before sweepers.
func (c *Client) Workers(ctx context.Context) ([]WorkerInfo, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.store.Workers(ctx)
}

// Kinds returns every kind that a live process knows or that is paused.
func (c *Client) Kinds(ctx context.Context) ([]KindInfo, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.store.Kinds(ctx)
}

// IDs that a prefix may have are listed so that an error can name them.
const maxSimilar = 5

// Find returns the ids of jobs between low and high, both included, at most five: for tools that take the beginning of an id.
func (c *Client) Find(ctx context.Context, low, high job.ID) ([]job.ID, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.store.IDsBetween(ctx, low, high, maxSimilar)
}
