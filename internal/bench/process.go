package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func processCases() []Case {
	return []Case{
		{
			Name: "process_noop_100", About: "no-op jobs to durable finish, one process, 100 slots, defaults", Quick: true,
			Run: on("noop", func(ctx context.Context, s *stage) ([]Figure, error) {
				v, err := rounds(3, func() (float64, error) { return s.processRate(ctx, 150_000, 100) })
				return []Figure{{Case: "process_noop_100", Name: "rate", Value: v, Unit: "jobs/s", Want: ">= 45000"}}, err
			}),
		},
		{
			Name: "claim_contention_64", About: "64 dispatchers that claim and finish 50 jobs (the default slots) at a time from one queue",
			Run: on("contention", contention),
		},
	}
}

// processRate fills the queue and returns the jobs a second that one worker finishes, from its start to the last result.
func (s *stage) processRate(ctx context.Context, jobs, slots int) (float64, error) {
	if err := s.fill(ctx, jobs); err != nil {
		return 0, err
	}
	w, stop, err := s.worker(slots, nil)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	for w.Stats().Completed < int64(jobs) {
		if time.Since(begun) > time.Minute || ctx.Err() != nil {
			return 0, errors.Join(stop(), fmt.Errorf("%d of %d jobs done after %v", w.Stats().Completed, jobs, time.Since(begun)))
		}
		time.Sleep(2 * time.Millisecond)
	}
	rate := float64(jobs) / time.Since(begun).Seconds()
	return rate, stop()
}

// worker starts a worker of noop jobs; stop ends it and waits.
func (s *stage) worker(slots int, handle func(*worker.Job[noop]) error) (w *worker.Worker, stop func() error, err error) {
	w, err = worker.New(s.client, worker.Config{
		Queues: []worker.Queue{{Name: job.DefaultQueue, Slots: slots}}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, err
	}
	worker.Handle(w, func(_ context.Context, j *worker.Job[noop]) error {
		if handle == nil {
			return nil
		}
		return handle(j)
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return w, func() error { cancel(); return <-ended }, nil
}

// contention compares many dispatchers with the best of few.
func contention(ctx context.Context, s *stage) ([]Figure, error) {
	best, last := 0.0, 0.0
	var out []Figure
	for _, n := range []int{1, 4, 16, 64} {
		v, err := rounds(3, func() (float64, error) { return s.contend(ctx, n) })
		if err != nil {
			return nil, err
		}
		best, last = max(best, v), v
		out = append(out, Figure{Case: "claim_contention_64", Name: fmt.Sprintf("rate_%d", n), Value: v, Unit: "jobs/s"})
	}
	return append(out, Figure{Case: "claim_contention_64", Name: "of_best", Value: last / best, Unit: "ratio", Want: ">= 0.7"}), nil
}

// contend lets n sessions claim and finish, fifty at a time, and returns the jobs a second of all. Their connections and
// plans are made before the clock starts.
func (s *stage) contend(ctx context.Context, n int) (float64, error) {
	const jobs, batch = 120_000, 50
	cfg := s.pool.Config()
	cfg.MaxConns = int32(n)
	pool, err := newPool(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	claimers := make([]*claimer, n)
	for i := range claimers {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return 0, err
		}
		defer conn.Release()
		claimers[i] = &claimer{store: s.client.Store().On(conn), session: s.client.IDs().New()}
		if err := claimers[i].warm(ctx, s); err != nil {
			return 0, err
		}
	}
	if err := s.fill(ctx, jobs); err != nil {
		return 0, err
	}
	var done atomic.Int64
	errs := make(chan error, n)
	begun := time.Now()
	for _, c := range claimers {
		go func() { errs <- c.loop(ctx, batch, &done, jobs) }()
	}
	for range n {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return float64(done.Load()) / time.Since(begun).Seconds(), err
}
