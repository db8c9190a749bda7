package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/pkg/job"
)

const (
	// maxAhead is how far an id may be ahead of the database clock: beyond that its partition may not exist yet.
	maxAhead = 10 * time.Minute
	// maxRoundTrip is how slow an answer may be to say something about the clock: the error is half of it.
	maxRoundTrip = time.Second
	// maxDrift is how far the local wall clock may part from the monotonic one until the offset must be learnt again:
	// somebody has set the clock, or the machine has slept.
	maxDrift = time.Minute
)

// clock makes ids on the database's time.
type clock struct {
	client *Client
	ids    atomic.Pointer[job.IDs]
	learnt atomic.Pointer[time.Time] // local time of the last sample; nil: the offset is not known

	mu     sync.Mutex
	flight *flight // the question that is on its way
}

// flight is one attempt to learn the clock, shared by all that need it.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// known reports whether the offset was learnt and the local clock has not been set since.
func (k *clock) known() bool {
	at := k.learnt.Load()
	if at == nil {
		return false
	}
	now := time.Now()
	drift := now.Round(0).Sub(at.Round(0)) - now.Sub(*at)
	return drift.Abs() < maxDrift
}

// restart makes the next caller learn anew: the database has said that ids are ahead of it, because its clock or ours
// was set. The source of ids is a new one, since the old one never goes back: it would go on from the ids refused.
func (k *clock) restart() {
	fresh := &job.IDs{}
	fresh.SetOffset(k.ids.Load().Offset())
	k.ids.Store(fresh)
	k.learnt.Store(nil)
}

// now returns the database's time by the offset.
func (k *clock) now() time.Time { return time.Now().Add(k.ids.Load().Offset()) }

func (k *clock) learn(now, sent time.Time) {
	received := time.Now()
	trip := received.Sub(sent)
	if now.IsZero() || trip < 0 || trip > maxRoundTrip && k.known() {
		return // a slow sample is better than none, but not than another
	}
	// The database read its clock somewhere between; half way is off by half of the trip at most. Round takes the
	// monotonic reading off: the offset is one of wall clocks.
	k.ids.Load().SetOffset(now.Sub(received.Round(0).Add(-trip / 2)))
	k.learnt.Store(&received)
}

// ensure returns once the offset is known. Callers that come at the same time share one question to the database. The
// error means that nothing was sent but that question.
func (k *clock) ensure(ctx context.Context) error {
	if k.known() {
		return nil
	}
	k.mu.Lock()
	f := k.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		k.flight = f
		k.client.background(func() { k.ask(f) })
	}
	k.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ended(ctx)
	}
}

// ask reads the database clock, again and again while there is no connection to be had.
func (k *clock) ask(f *flight) {
	ctx, cancel := k.client.own(context.Background())
	defer cancel()
	for failures := 0; ; failures++ {
		sent := time.Now()
		now, err := k.client.store.Now(ctx)
		if err == nil {
			k.learn(now, sent)
		}
		f.err = err
		if err == nil || !isTransient(err) || !pause(ctx, backoff(failures)) {
			break
		}
	}
	if f.err != nil {
		f.err = fmt.Errorf("learn the offset of the clock: %w", f.err)
	}
	k.mu.Lock()
	k.flight = nil
	k.mu.Unlock()
	close(f.done)
}

// check reports a *job.FieldError for an id of the caller's that the database would refuse. margin is taken off the
// limit where the boundary must be kept clear of.
func (k *clock) check(id job.ID, margin time.Duration) error {
	now := k.now()
	if !id.Time().After(now.Add(maxAhead - margin)) {
		return nil
	}
	return &job.FieldError{
		Field: "ID", Got: fmt.Sprintf("%v ahead of the database clock", id.Time().Sub(now).Round(time.Second)),
		Limit: fmt.Sprintf("at most %v ahead", maxAhead),
	}
}

// backoff is the wait after the nth failure in a row, from 0: about 10 ms, doubling up to a second, drawn from its upper
// half so that the processes of a fleet do not try in step.
func backoff(n int) time.Duration {
	d := min(10*time.Millisecond<<min(n, 10), time.Second)
	return d/2 + rand.N(d/2)
}

// pause waits for d; false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
