package client

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Store returns the store on the client's pool and schema. For package worker; not covered by the compatibility promise.
func (c *Client) Store() *pgstore.Store { return c.store }

// Pool returns the pool given to New. For package worker; not covered by the compatibility promise.
func (c *Client) Pool() *pgxpool.Pool { return c.pool }

// Bus returns the bus; without Redis it does nothing. For package worker; not covered by the compatibility promise.
func (c *Client) Bus() *coord.Bus { return c.bus }

// IDs returns the source of this client's ids. Ask again for each id: a clock that was set makes the client take a new
// source. For package worker; not covered by the compatibility promise.
func (c *Client) IDs() *job.IDs { return c.clock.ids.Load() }

// Unreserve gives back what jobs that have ended unstarted may have reserved of their rates in Redis: it is advice, and nothing
// without Redis. For package sweeper; not covered by the compatibility promise.
func (c *Client) Unreserve(ctx context.Context, ended []pgstore.RatesOf) {
	had := make([]reservation, len(ended))
	for i, r := range ended {
		had[i] = reservationOf(r)
	}
	if c.bus.Enabled() {
		c.unreserve(ctx, had, func(job.ID) bool { return true })
	}
}

// Namespace returns the schema and Redis prefix. For package worker; not covered by the compatibility promise.
func (c *Client) Namespace() string { return c.cfg.Namespace }

// Logger returns the logger, never nil. For package worker; not covered by the compatibility promise.
func (c *Client) Logger() *slog.Logger { return c.cfg.Logger }

// Learn takes in a sample of the database clock: now is what the database said in a reply that has just come, sent the
// local time, with its monotonic reading, before its request left. For package worker; not covered by the compatibility
// promise.
func (c *Client) Learn(now, sent time.Time) { c.clock.learn(now, sent) }

// OnLocalWake offers every hint of this client to f before it goes to Redis, so that an enqueue in a process that can
// run the job needs no Redis. f returns true if it has a free slot in the queue for at least one of the jobs and knows
// the kind (an empty kind is any), and has taken care that it claims; of several jobs, the rest is then announced by
// Redis too. f is called on the caller's path: it must be quick and must not call the client. After remove has returned
// f is not called any more. For package worker; not covered by the compatibility promise.
func (c *Client) OnLocalWake(f func(h coord.Hint) (taken bool)) (remove func()) {
	return c.local.add(f)
}
