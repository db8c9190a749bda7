package main

import (
	"context"
	"fmt"
	"time"
)

// costJobs is how many jobs the costs are counted over.
const costJobs = 20_000

func costCases() []benchCase {
	return []benchCase{
		{name: "cost_wal", about: "bytes of WAL a job, from a bulk enqueue to its durable end, 100 slots", quick: true, run: counting(
			[]figure{{"", "bytes"}}, func(s *servers) []counter { return []counter{s.wal} })},
		{name: "cost", about: "dead rows, statements and CPU time a job, likewise", run: counting(
			[]figure{{"_dead", "rows"}, {"_statements", "calls"}, {"_cpu", "µs"}},
			func(s *servers) []counter { return []counter{s.deadRows, s.calls, s.cpu} })},
	}
}

// counter reads a number that only rises.
type counter func(ctx context.Context) (float64, error)

func counting(figures []figure, of func(*servers) []counter) func(context.Context, *suite, string) error {
	return func(ctx context.Context, s *suite, name string) error {
		counters := of(s.s)
		return s.compare(ctx, name, figures, []peer{weir, river, riverTuned}, func(ctx context.Context, a arena, _ time.Duration) ([]float64, error) {
			before, err := read(ctx, counters)
			if err != nil {
				return nil, err
			}
			if err := runAll(ctx, a, costJobs); err != nil {
				return nil, err
			}
			after, err := read(ctx, counters)
			for i := range after {
				after[i] = (after[i] - before[i]) / costJobs
			}
			return after, err
		})
	}
}

func read(ctx context.Context, counters []counter) ([]float64, error) {
	out := make([]float64, len(counters))
	for i, f := range counters {
		var err error
		if out[i], err = f(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// runAll enqueues jobs and works them all off.
func runAll(ctx context.Context, a arena, jobs int) (err error) {
	for sent := 0; sent < jobs; sent += 1000 {
		if err := a.enqueue(ctx, sent, min(1000, jobs-sent)); err != nil {
			return err
		}
	}
	stop, err := a.work(ctx, 100, noop)
	if err != nil {
		return err
	}
	defer func() {
		if e := stop(); err == nil {
			err = e
		}
	}()
	begun := time.Now()
	for {
		n, err := a.finished(ctx)
		if err != nil || n >= int64(jobs) {
			return err
		}
		if time.Since(begun) > 2*time.Minute {
			return fmt.Errorf("%d of %d jobs were finished", n, jobs)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *servers) wal(ctx context.Context) (n float64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&n)
	return n, err
}

// deadRows counts the row versions that updates and deletes leave behind. The server's counts lag by a second.
func (s *servers) deadRows(ctx context.Context) (n float64, err error) {
	time.Sleep(2 * time.Second)
	err = s.pool.QueryRow(ctx, "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables").Scan(&n)
	return n, err
}

// calls counts statements, NaN where pg_stat_statements is not installed.
func (s *servers) calls(ctx context.Context) (n float64, err error) {
	if !s.statements {
		return nan, nil
	}
	err = s.pool.QueryRow(ctx, "SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements").Scan(&n)
	return n, err
}
