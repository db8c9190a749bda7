package main

import (
	"context"
	"fmt"
	"time"
)

// cases lists all in the order in which they run.
func cases() []benchCase {
	var all []benchCase
	for _, f := range []func() []benchCase{processCases, enqueueCases, pickupCases, costCases, selfCases} {
		all = append(all, f()...)
	}
	return all
}

var rate = []figure{{"", "jobs/s"}}

func processCases() []benchCase {
	var out []benchCase
	for _, slots := range []int{16, 100, 2000} {
		out = append(out,
			benchCase{
				name: fmt.Sprintf("process_noop_%d_default", slots), about: fmt.Sprintf("no-op jobs, %d slots, every peer's defaults", slots),
				quick: slots == 100,
				run:   processing(slots, noop, weir, river, asynq, asynqFsync),
			},
			benchCase{
				name: fmt.Sprintf("process_noop_%d_tuned", slots), about: fmt.Sprintf("no-op jobs, %d slots, River with 2,000 workers, cooldown 2 ms, poll 20 ms", slots),
				quick: slots == 2000,
				run:   processing(slots, noop, weir, riverTuned),
			})
	}
	for _, d := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
		out = append(out, benchCase{
			name: fmt.Sprintf("handler_%dms", d.Milliseconds()), about: fmt.Sprintf("handlers that wait for %v, 100 slots", d),
			run: processing(100, func(ctx context.Context, _ int) error { return wait(ctx, d) }, weir, riverTuned, asynq),
		})
	}
	return append(out, benchCase{
		name: "handler_db", about: "handlers of 10 ms with three queries of their own, 100 slots",
		run: func(ctx context.Context, s *suite, name string) error {
			handle := func(ctx context.Context, n int) error {
				for range 3 {
					if _, err := s.s.count(ctx, "SELECT count(*) FROM pg_class WHERE relname = 'bench'"); err != nil {
						return err
					}
				}
				return wait(ctx, 10*time.Millisecond)
			}
			return processing(100, handle, weir, riverTuned)(ctx, s, name)
		},
	})
}

func noop(context.Context, int) error { return nil }

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func processing(slots int, handle func(context.Context, int) error, peers ...peer) func(context.Context, *suite, string) error {
	return func(ctx context.Context, s *suite, name string) error {
		backlog := map[arena]int{}
		return s.compare(ctx, name, rate, peers, one(func(ctx context.Context, a arena, window time.Duration) (float64, error) {
			if backlog[a] == 0 {
				backlog[a] = 5000
			}
			for { // until the backlog outlasts the window
				v, drained, err := processRate(ctx, a, slots, backlog[a], window, handle)
				if err != nil || !drained {
					return v, err
				}
				backlog[a] = max(2*backlog[a], int(1.6*v*window.Seconds()))
				if err := a.clear(ctx); err != nil {
					return 0, err
				}
			}
		}))
	}
}

// processRate fills the queue with so many jobs and returns how many a second a worker finishes within the window, which
// begins when the first are durably finished; drained tells that they did not last.
func processRate(ctx context.Context, a arena, slots, jobs int, window time.Duration, handle func(context.Context, int) error) (rate float64, drained bool, err error) {
	for sent := 0; sent < jobs; sent += 10_000 {
		if err := a.enqueue(ctx, sent, min(10_000, jobs-sent)); err != nil {
			return 0, false, err
		}
	}
	stop, err := a.work(ctx, slots, handle)
	if err != nil {
		return 0, false, err
	}
	defer func() {
		if e := stop(); err == nil {
			err = e
		}
	}()
	var first int64
	started := time.Now()
	for first == 0 {
		if first, err = a.finished(ctx); err != nil {
			return 0, false, err
		}
		if time.Since(started) > 30*time.Second {
			return 0, false, fmt.Errorf("nothing was finished within 30 s")
		}
		if first == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	// A look costs a count of the table: a few in a window, so that a backlog which ends early is timed to its end.
	begun := time.Now()
	for look := 1; ; look++ {
		time.Sleep(time.Until(begun.Add(window * time.Duration(look) / 8)))
		at := time.Now()
		n, err := a.finished(ctx)
		if err != nil {
			return 0, false, err
		}
		if n >= int64(jobs) || look == 8 {
			return float64(n-first) / at.Sub(begun).Seconds(), n >= int64(jobs), nil
		}
	}
}
