package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirq/weir/internal/bench"
)

// selfCases compare Weir with itself: what peers have no counterpart to, or where only the ratio to its own speed matters.
func selfCases() []benchCase {
	out := []benchCase{
		{name: "scheduled", about: "how late 200 jobs start that were delayed by 1 to 3 s, defaults", run: scheduled},
		{name: "history_10m", about: "the rate of no-op jobs on 10 million outcomes, of that on none, and the time that their retention takes", run: history},
	}
	for _, c := range bench.Cases() {
		if slices.Contains([]string{"held_snapshot", "depth_scheduled", "claim_contention_64", "idle_10_queues", "idle_1000_workers"}, c.Name) ||
			len(c.Name) > 5 && c.Name[:5] == "keys_" {
			out = append(out, benchCase{name: c.Name, about: c.About, run: internal(c)})
		}
	}
	return out
}

// internal runs a case of `weir bench`, whose figures have bounds of their own.
func internal(c bench.Case) func(context.Context, *suite, string) error {
	return func(ctx context.Context, s *suite, name string) error {
		figures, err := c.Run(ctx, &bench.Env{PostgresURL: s.s.pg.URL(), Redis: s.s.redis, Scale: s.scale, Log: note})
		for _, f := range figures {
			s.out.line(line{Case: name + "_" + f.Name, Peer: "self", Ours: f.Value, Theirs: nan, Unit: f.Unit, OursRounds: []float64{f.Value}})
		}
		return err
	}
}

// delayed is an arena whose jobs may be due later.
type delayed interface {
	enqueueIn(ctx context.Context, n int, delay time.Duration) error
}

func scheduled(ctx context.Context, s *suite, name string) error {
	const jobs = 200
	return s.compare(ctx, name, []figure{{"_p50", "ms"}, {"_p99", "ms"}}, []peer{weir, river, riverTuned}, func(ctx context.Context, a arena, _ time.Duration) ([]float64, error) {
		due := make([]time.Time, jobs)
		late := make(chan float64, jobs)
		stop, err := a.work(ctx, 50, func(_ context.Context, n int) error {
			late <- ms(time.Since(due[n]))
			return nil
		})
		if err != nil {
			return nil, err
		}
		defer func() { _ = stop() }()
		time.Sleep(500 * time.Millisecond)
		for n := range jobs {
			delay := time.Second + time.Duration(n)*10*time.Millisecond
			due[n] = time.Now().Add(delay)
			if err := a.(delayed).enqueueIn(ctx, n, delay); err != nil {
				return nil, err
			}
		}
		var waits []float64
		for timeout := time.After(30 * time.Second); len(waits) < jobs; {
			select {
			case v := <-late:
				waits = append(waits, v)
			case <-timeout:
				return nil, fmt.Errorf("%d of %d delayed jobs started", len(waits), jobs)
			}
		}
		return []float64{quantile(waits, 0.5), quantile(waits, 0.99)}, nil
	})
}
