package worker

import (
	"context"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// grantFor is how long a lock that Redis granted stands there until the job's session renews it. A candidate that is lost
// releases nothing: this ends it.
const grantFor = 5 * time.Second

// maxAdvice bounds what waits to be told to Redis. What is lost there expires, or is put right by the next admission.
const maxAdvice = 20_000

// advice tells Redis what Postgres has decided about keys, in the order in which it was decided, and off the path of the
// jobs: a job that was handed a key does not wait for Redis to know.
type advice struct {
	bus *coord.Bus
	ttl time.Duration // how long a lock stands in Redis without a renewal

	mu    sync.Mutex
	tells []tell
	n     int
	busy  bool
	more  chan struct{}
	quiet *sync.Cond
}

// tell is one call: swaps, the holders of keys, or renewals.
type tell struct {
	swaps   []coord.Swap
	holders map[string][]string
	renew   []coord.Member
}

func (a *advice) init(bus *coord.Bus, ttl time.Duration) {
	a.bus, a.ttl, a.more = bus, ttl, make(chan struct{}, 1)
	a.quiet = sync.NewCond(&a.mu)
}

// swap tells who has keys now.
func (a *advice) swap(moves []pgstore.Move) {
	if !a.bus.Enabled() || len(moves) == 0 {
		return
	}
	swaps := make([]coord.Swap, len(moves))
	for i, m := range moves {
		swaps[i] = coord.Swap{Key: m.Key, Out: member(m.Out), In: member(m.In)}
	}
	a.add(tell{swaps: swaps}, len(swaps))
}

// member is a job's name in Redis, empty for none.
func member(id job.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// release tells that a job has its keys no more.
func (a *advice) release(id job.ID, keys []string) {
	if !a.bus.Enabled() || len(keys) == 0 {
		return
	}
	swaps := make([]coord.Swap, len(keys))
	for i, k := range keys {
		swaps[i] = coord.Swap{Key: k, Out: id.String()}
	}
	a.add(tell{swaps: swaps}, len(swaps))
}

// write tells who holds keys by Postgres' account: what Redis believed was wrong, or may have been.
func (a *advice) write(holders map[string][]job.ID) {
	if !a.bus.Enabled() || len(holders) == 0 {
		return
	}
	out := make(map[string][]string, len(holders))
	for key, ids := range holders {
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = id.String()
		}
		out[key] = names
	}
	a.add(tell{holders: out}, len(out))
}

// renew keeps the locks of running jobs in Redis.
func (a *advice) renew(tasks []*task) {
	if !a.bus.Enabled() {
		return
	}
	var members []coord.Member
	for _, t := range tasks {
		if t.isUnheard() {
			continue
		}
		for _, k := range locks(&t.row) {
			members = append(members, coord.Member{Key: k, ID: t.row.ID.String()})
		}
	}
	if len(members) > 0 {
		a.add(tell{renew: members}, len(members))
	}
}

func (a *advice) add(t tell, n int) {
	a.mu.Lock()
	switch last := len(a.tells) - 1; {
	case a.n+n > maxAdvice:
		a.mu.Unlock()
		return
	case last >= 0 && t.swaps != nil && a.tells[last].swaps != nil:
		a.tells[last].swaps = append(a.tells[last].swaps, t.swaps...) // one call for both
	default:
		a.tells = append(a.tells, t)
	}
	a.n += n
	a.mu.Unlock()
	select {
	case a.more <- struct{}{}:
	default:
	}
}

func (a *advice) take() []tell {
	a.mu.Lock()
	defer a.mu.Unlock()
	tells := a.tells
	a.tells, a.n, a.busy = nil, 0, len(tells) > 0
	if !a.busy {
		a.quiet.Broadcast()
	}
	return tells
}

// flush waits until all was told, at most until deadline.
func (a *advice) flush(deadline time.Time) {
	over := false
	stop := time.AfterFunc(time.Until(deadline), func() {
		a.mu.Lock()
		over = true
		a.mu.Unlock()
		a.quiet.Broadcast()
	})
	defer stop.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for (len(a.tells) > 0 || a.busy) && !over {
		a.quiet.Wait()
	}
}

// runAdvice tells until ctx ends. An error loses what was to be told.
func (w *Worker) runAdvice(ctx context.Context) {
	a := &w.advice
	for {
		tells := a.take()
		if len(tells) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-a.more:
			}
			continue
		}
		for _, t := range tells {
			if err := a.send(ctx, t); err != nil {
				w.trouble("redis", err)
			}
		}
	}
}

func (a *advice) send(ctx context.Context, t tell) error {
	switch {
	case t.swaps != nil:
		return a.bus.SwapLocks(ctx, t.swaps, a.ttl)
	case t.holders != nil:
		return a.bus.WriteHolders(ctx, t.holders, a.ttl)
	}
	return a.bus.RenewLocks(ctx, t.renew, a.ttl)
}
