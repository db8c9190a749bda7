package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

// Run claims and runs jobs until ctx ends, then closes: what has not started is given back, running handlers get
// Config.Grace, then their contexts end with job.ErrShutdown and what returns is released without counting the attempt.
// It returns nil after a clean end, *UnflushedError if results could not be written, and blocks until all it started is
// gone, except handlers that ignore their context. Trouble with Postgres or Redis does not end it.
//
// Run can be called once: a second call returns ErrRunning, one after the first has ended ErrClosed. Without a handler it
// returns an error at once. A handler whose args go to a queue that is not served here is a warning in the log: a call may name
// another queue.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	defer w.end()
	var sweep *sweeper.Sweeper
	if w.cfg.Sweep {
		var err error
		if sweep, err = sweeper.New(w.client, w.cfg.Sweeper); err != nil {
			return err
		}
	}
	bg, stop := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx: handlers need leases and results to the end
	defer stop()
	if err := w.connect(bg); err != nil {
		return err
	}
	defer w.disconnect()
	w.openChildren()
	defer w.closeChildren()
	if sweep != nil {
		if err := w.connectSweeper(bg, sweep); err != nil {
			return err
		}
	}
	if _, err := w.openSession(ctx); err != nil {
		return nil // ctx ended before the database was there: nothing was claimed
	}
	var loops, flushing sync.WaitGroup
	loops.Go(func() { w.keepSession(bg) })
	loops.Go(func() { w.runForwards(bg) })
	loops.Go(func() { w.runPasses(bg) })
	loops.Go(func() { w.runAdvice(bg) })
	loops.Go(func() { w.ignore(w.bus.Run(bg, w.name(), w.receiver())) })
	if sweep != nil {
		loops.Go(func() { w.ignore(sweep.Run(bg)) })
	}
	writing := w.results.bound(bg)
	for range flushers {
		flushing.Go(func() { w.results.run(writing) })
	}
	stopLocal := w.client.OnLocalWake(w.localWake)
	// At once: a claim may still be under way, and what is hinted from here on is for others.
	closing := context.AfterFunc(ctx, func() { w.closing.Store(true) })
	w.disp.run(ctx)
	closing()
	stopLocal()
	err := w.close(bg, w.cfg.Grace)
	w.results.finish()
	flushing.Wait()
	stop()
	loops.Wait()
	return err
}

func (w *Worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

func (w *Worker) ignore(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		w.log.Error("loop ended", "error", err)
	}
}

// connect opens this process' own connections: three for claims and results, one for renewals, so that neither the
// application's use of its pool nor a long result can keep a renewal waiting.
func (w *Worker) connect(ctx context.Context) error {
	base := w.client.Pool().Config()
	work, err := pgxpool.NewWithConfig(ctx, own(base, 3))
	if err != nil {
		return fmt.Errorf("open connections: %w", err)
	}
	lease := own(base, 1)
	if w.cfg.LeaseURL != "" {
		direct, err := pgxpool.ParseConfig(w.cfg.LeaseURL)
		if err != nil {
			work.Close()
			return errors.New("worker: LeaseURL is not a connection string") // its text may hold a password
		}
		lease = own(direct, 1)
	}
	// pgxpool pings what was idle for a second, which doubles the time of a renewal over a slow link. One that meets a dead
	// connection is sent again soon.
	lease.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	renew, err := pgxpool.NewWithConfig(ctx, lease)
	if err != nil {
		work.Close()
		return fmt.Errorf("open connections: %w", err)
	}
	w.claims = w.client.Store().On(work)
	w.renewal = w.client.Store().On(renew)
	if w.cfg.LeaseURL != "" {
		w.renewal = pgstore.New(renew, pgstore.Config{Schema: w.client.Namespace(), Timeout: w.client.Store().Timeout()})
	}
	w.mu.Lock()
	w.pools = []resetter{work, renew}
	w.mu.Unlock()
	return nil
}

// connectSweeper gives the sweeper three connections of its own: handlers that use up the application's pool must not keep it
// from recovering and waking, nor its heartbeat from being in time.
func (w *Worker) connectSweeper(ctx context.Context, s *sweeper.Sweeper) error {
	pool, err := pgxpool.NewWithConfig(ctx, own(w.client.Pool().Config(), 3))
	if err != nil {
		return fmt.Errorf("open connections: %w", err)
	}
	s.Use(pool)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pools = append(w.pools, pool)
	return nil
}

// own returns a copy of a pool's configuration for n connections of ours.
func own(base *pgxpool.Config, n int32) *pgxpool.Config {
	c := base.Copy()
	c.MaxConns, c.MinConns, c.MinIdleConns = n, 0, 0
	c.MaxConnLifetime = time.Hour
	c.MaxConnLifetimeJitter = 10 * time.Minute
	return c
}

func (w *Worker) disconnect() {
	w.mu.Lock()
	pools := w.pools
	w.pools = nil
	w.mu.Unlock()
	for _, p := range pools {
		p.Close()
	}
}
