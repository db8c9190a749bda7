package coord

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// flight is one command on its way. The first of answer and timeout settles it, even when its caller has left: the
// breaker learns from every command, and a client that ignores deadlines cannot hold the caller.
type flight struct {
	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

// do runs one command: at most Timeout, and not at all while the breaker is open. what names it for the error. A caller
// that leaves early gets its context's error while the command ends on its own; it may still take effect.
func (b *Bus) do(ctx context.Context, what string, call func(context.Context) error) error {
	if !b.Enabled() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	probe, ok := b.breaker.allow(time.Now())
	if !ok {
		b.count.refused.Add(1)
		return fmt.Errorf("%s: %w: the circuit breaker is open", what, ErrUnavailable)
	}
	f := b.launch(ctx, probe, call)
	select {
	case <-f.done:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if f.err != nil {
		return fmt.Errorf("%s: %w", what, f.err)
	}
	return nil
}

// launch starts the command in a goroutine that ends with the client's answer, for most clients within Timeout.
func (b *Bus) launch(ctx context.Context, probe bool, call func(context.Context) error) *flight {
	f := &flight{done: make(chan struct{})}
	flown, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.cfg.Timeout)
	stop := context.AfterFunc(flown, func() {
		b.settle(f, probe, fmt.Errorf("no answer within %v: %w", b.cfg.Timeout, context.DeadlineExceeded))
	})
	go func() {
		defer cancel()
		select {
		case b.flights <- struct{}{}:
		case <-flown.Done():
			return
		}
		defer func() { <-b.flights }()
		err := call(flown)
		if r, _ := react(err); err != nil && r.shed {
			b.shed(flown)
		}
		if stop() {
			b.settle(f, probe, err)
		}
	}()
	return f
}

// settle tells the breaker and the caller how the command went.
func (b *Bus) settle(f *flight, probe bool, err error) {
	f.once.Do(func() {
		defer close(f.done)
		o, r := answered, reaction{}
		if err != nil {
			b.count.failures.Add(1)
			if r, _ = react(err); r.counts {
				o = unavailable
				err = fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		}
		f.err = err
		switch b.breaker.settle(time.Now(), probe, o) {
		case opened:
			b.cfg.Logger.Warn("redis is away; work goes on from Postgres", "error", err, "advice", r.advice)
		case closed:
			b.cfg.Logger.Info("redis is back")
		}
		if r.shed {
			b.stale.Store(true)
		}
		// The first success after READONLY comes from another server, or from one that was a replica meanwhile: a
		// subscription made before may still hang on the former primary, where nobody publishes any more.
		if err == nil && b.stale.CompareAndSwap(true, false) {
			b.resubscribe()
		}
	})
}

// shed drops the pool's connections to a server that answers READONLY. go-redis closes a connection only when it sees
// that very answer to a command (Redis 6 hides it in the error of a script), so a plain write goes out over one after
// the other until one is taken, which leads to a primary.
func (b *Bus) shed(ctx context.Context) {
	for range b.rdb.PoolStats().TotalConns {
		err := b.rdb.Set(ctx, b.keys.probe(), "", time.Millisecond).Err()
		if err == nil || ctx.Err() != nil {
			return
		}
		if r, _ := react(err); !r.shed {
			return
		}
	}
}

// ask is do for a command with an answer. The command may outlive the call, so the answer comes over a channel.
func ask[T any](ctx context.Context, b *Bus, what string, call func(context.Context) (T, error)) (answer T, err error) {
	if !b.Enabled() {
		return answer, nil
	}
	came := make(chan T, 1)
	err = b.do(ctx, what, func(ctx context.Context) error {
		a, err := call(ctx)
		came <- a
		return err
	})
	if err != nil {
		return answer, err
	}
	return <-came, nil
}

// fit returns how many items go into one call of a script, at least one.
func fit[T any](items []T, size func(T) int) int {
	n, sum := 0, 0
	for n < len(items) && n < maxMembers {
		sum += size(items[n])
		if n > 0 && sum > maxKeys {
			break
		}
		n++
	}
	return n
}

// millis is a duration for a script, in whole milliseconds, one at least.
func millis(d time.Duration) int64 { return max(1, d.Milliseconds()) }

// wrongLength is err, or says that a script's answer has another length than it must have.
func wrongLength(err error, script string, got, want int) error {
	if err == nil && got != want {
		return fmt.Errorf("%s script returned %d values: want %d", script, got, want)
	}
	return err
}

// checkKeys checks the length of names of locks and rates.
func checkKeys(what string, names ...string) error {
	for _, name := range names {
		if len(name) > maxKey {
			return fmt.Errorf("%s: key of %d bytes: limit %d", what, len(name), maxKey)
		}
	}
	return nil
}
