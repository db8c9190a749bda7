//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// producer enqueues at a steady rate. What is acknowledged stands in the ledger; what is unknown is sent again with the
// same id until it is known.
type producer struct {
	client *client.Client
	ledger *ledger
	args   work
}

// run enqueues so many jobs a second until ctx ends, each in a goroutine, so that a slow answer does not slow the rate.
func (p *producer) run(ctx context.Context, rate int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			wg.Go(func() { p.one(context.WithoutCancel(ctx)) })
		}
	}
}

// one enqueues a job, and again while the outcome is unknown.
func (p *producer) one(ctx context.Context) {
	began := time.Now()
	var o job.Options
	for {
		e, err := p.client.Enqueue(ctx, p.args, o)
		var unknown *client.UnknownError
		switch {
		case err == nil:
			p.ledger.note(event{What: acked, ID: e.ID, Took: time.Since(began)})
			return
		case errors.As(err, &unknown):
			o.ID = unknown.IDs[0]
		case !o.ID.IsZero():
			// Nothing was stored by this try; the first may have been: go on asking.
		default:
			p.ledger.note(event{What: refused, Err: err.Error(), Took: time.Since(began)})
			return
		}
	}
}
