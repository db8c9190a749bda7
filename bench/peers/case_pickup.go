package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

func pickupCases() []benchCase {
	var out []benchCase
	for _, perSecond := range []int{20, 100, 1000} {
		out = append(out, benchCase{
			name: fmt.Sprintf("pickup_%d", perSecond), about: fmt.Sprintf("from the intended instant to the handler, %d jobs/s, 50 slots, defaults", perSecond),
			quick: perSecond == 100,
			run: func(ctx context.Context, s *suite, name string) error {
				return s.pickups(ctx, name, perSecond, noop, weir, river, riverTuned, asynq)
			},
		})
	}
	return append(out, benchCase{
		name: "pickup_70pct_load", about: "from the intended instant to the handler, 50 slots, handlers of 10 ms, 70 % busy",
		run: func(ctx context.Context, s *suite, name string) error {
			handle := func(ctx context.Context, _ int) error { return wait(ctx, 10*time.Millisecond) }
			return s.pickups(ctx, name, 3500, handle, weir, riverTuned, asynq)
		},
	})
}

var pickup = []figure{{"_p50", "ms"}, {"_p99", "ms"}}

func (s *suite) pickups(ctx context.Context, name string, perSecond int, handle func(context.Context, int) error, peers ...peer) error {
	return s.compare(ctx, name, pickup, peers, func(ctx context.Context, a arena, window time.Duration) ([]float64, error) {
		waits, err := pickupTimes(ctx, a, perSecond, 50, window, handle)
		return []float64{quantile(waits, 0.5), quantile(waits, 0.99)}, err
	})
}

// pickupTimes enqueues at a fixed rate, whatever the answers take (an open loop), and returns in milliseconds how long each
// job took from the instant at which it was to be enqueued to its handler. A fifth of a second before is not counted.
func pickupTimes(ctx context.Context, a arena, perSecond, slots int, window time.Duration, handle func(context.Context, int) error) ([]float64, error) {
	every := time.Second / time.Duration(perSecond)
	skip := max(perSecond/5, 3)
	jobs := skip + max(int(window/every), 10)
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		fail   error
		waits  = make([]float64, jobs)
		seen   int
		ended  = make(chan struct{})
		begun  time.Time
		starts = func(n int) time.Time { return begun.Add(time.Duration(n) * every) }
	)
	stop, err := a.work(ctx, slots, func(ctx context.Context, n int) error {
		now := time.Now()
		mu.Lock()
		if n < jobs && waits[n] == 0 {
			waits[n] = ms(now.Sub(starts(n)))
			if seen++; seen == jobs {
				close(ended)
			}
		}
		mu.Unlock()
		return handle(ctx, n)
	})
	if err != nil {
		return nil, err
	}
	time.Sleep(500 * time.Millisecond) // subscriptions and registrations
	mu.Lock()
	begun = time.Now().Add(5 * time.Millisecond)
	mu.Unlock()
	for n := range jobs {
		time.Sleep(time.Until(starts(n)))
		wg.Go(func() {
			if err := a.enqueue(ctx, n, 1); err != nil {
				mu.Lock()
				fail = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if fail == nil {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			fail = fmt.Errorf("%d of %d jobs were picked up", seen, jobs)
		}
	}
	if err := stop(); fail == nil {
		fail = err
	}
	return waits[skip:], fail
}
