//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	mix    bool // args is for the plain ones among a mixture
	sent   atomic.Int64
}

// run enqueues so many jobs a second until ctx ends, each in a goroutine, so that a slow answer does not slow the rate. Ticks
// that a busy machine has swallowed are made up for.
func (p *producer) run(ctx context.Context, rate int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	began := time.Now()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; n < int(time.Since(began).Seconds()*float64(rate)); n++ {
			wg.Go(func() { p.one(context.WithoutCancel(ctx)) })
		}
	}
}

// one enqueues a job, and again while the outcome is unknown.
func (p *producer) one(ctx context.Context) {
	began := time.Now()
	args, o := p.args, job.Options{}
	if p.mix {
		args, o = p.mixture(p.sent.Add(1))
	}
	for {
		e, err := p.client.Enqueue(ctx, args, o)
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

// mixture is the nth job of a load that uses every table: half of them plain, the others with a key that many share, with
// one that nobody else has, unique, delayed, or of two attempts.
func (p *producer) mixture(n int64) (work, job.Options) {
	args, o := p.args, job.Options{}
	switch n % 10 {
	case 0:
		o.Keys = []job.Key{job.Limit(fmt.Sprint("shared:", n/10%50), 2)}
	case 1:
		o.Keys = []job.Key{job.Limit(fmt.Sprint("own:", p.ledger.process, n), 1)}
	case 2:
		o.Unique = job.Unique{Key: fmt.Sprint("unique:", n/10%200)}
	case 3:
		o.Delay = time.Duration(n/10%20+1) * 100 * time.Millisecond
	case 4:
		args.Do, args.For = doRetry, 300*time.Millisecond
	}
	return args, o
}
