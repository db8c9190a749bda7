package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

func enqueueCases() []benchCase {
	out := []benchCase{{
		name: "enqueue_bulk", about: "1,000 jobs a call, two callers", quick: true,
		run: func(ctx context.Context, s *suite, name string) error {
			return s.compare(ctx, name, rate, []peer{weir, river}, one(enqueueRate(2, 1000, arena.enqueue)))
		},
	}}
	for _, callers := range []int{1, 16, 64, 256} {
		out = append(out, benchCase{
			name: fmt.Sprintf("enqueue_single_%d", callers), about: fmt.Sprintf("one job a call, %d callers", callers),
			quick: callers == 16 || callers == 64,
			run: func(ctx context.Context, s *suite, name string) error {
				return s.compare(ctx, name, rate, []peer{weir, river, asynq, asynqFsync}, one(enqueueRate(callers, 1, arena.enqueue)))
			},
		})
	}
	return append(out, benchCase{
		name: "enqueue_tx", about: "one job in a transaction of the caller's, 16 callers",
		run: func(ctx context.Context, s *suite, name string) error {
			inATx := func(a arena, ctx context.Context, n, _ int) error { return a.(inTx).enqueueInTx(ctx, n) }
			return s.compare(ctx, name, rate, []peer{weir, river}, one(enqueueRate(16, 1, inATx)))
		},
	})
}

// enqueueRate lets callers enqueue batches for the window and returns how many jobs a second were acknowledged.
func enqueueRate(callers, batch int, enqueue func(a arena, ctx context.Context, from, n int) error) func(context.Context, arena, time.Duration) (float64, error) {
	return func(ctx context.Context, a arena, window time.Duration) (float64, error) {
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex
			total int
			fail  error
		)
		for i := range 8 { // connections and prepared statements
			if err := enqueue(a, ctx, i, 1); err != nil {
				return 0, err
			}
		}
		begun := time.Now()
		until := begun.Add(window)
		for range callers {
			wg.Go(func() {
				n, err := 0, error(nil)
				for err == nil && time.Now().Before(until) {
					if err = enqueue(a, ctx, n, batch); err == nil {
						n += batch
					}
				}
				mu.Lock()
				defer mu.Unlock()
				total += n
				if err != nil {
					fail = err
				}
			})
		}
		wg.Wait()
		return float64(total) / time.Since(begun).Seconds(), fail
	}
}
