package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/worker"
)

func costCases() []Case {
	return []Case{
		{Name: "cost_wal", About: "bytes of WAL a job, from a bulk enqueue to its outcome", Quick: true, Run: on("wal", walCost)},
		{Name: "idle_10_queues", About: "statements a second of a process that serves 10 idle queues", Quick: true, Run: idleCost},
		{Name: "idle_1000_workers", About: "statements a job with 1,000 idle workers registered", Run: needsRedis(fleetCost)},
	}
}

// walCost counts the server's WAL: on a server that others use it counts theirs too.
func walCost(ctx context.Context, s *stage) ([]Figure, error) {
	const jobs = 100_000
	if err := s.exec(ctx, "CHECKPOINT"); err != nil {
		return nil, err
	}
	at := func() (lsn float64, err error) {
		err = s.pool.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&lsn)
		return lsn, err
	}
	begun, err := at()
	if err != nil {
		return nil, err
	}
	if err := s.fill(ctx, jobs); err != nil {
		return nil, err
	}
	filled, err := at()
	if err != nil {
		return nil, err
	}
	w, stop, err := s.worker(100, nil)
	if err != nil {
		return nil, err
	}
	for w.Stats().Completed < jobs && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	ended, err := at()
	if err != nil {
		return nil, err
	}
	return []Figure{
		{Case: "cost_wal", Name: "enqueue", Value: (filled - begun) / jobs, Unit: "bytes/job"},
		{Case: "cost_wal", Name: "whole_life", Value: (ended - begun) / jobs, Unit: "bytes/job", Want: "<= 1126"},
	}, stop()
}

// counter counts statements, as a tracer of every connection of a pool and of those that copy its configuration.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted opens a stage whose statements are counted.
func (e *Env) counted(ctx context.Context, name string) (*stage, *counter, error) {
	s, err := e.open(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	c := new(counter)
	cfg := s.pool.Config()
	cfg.ConnConfig.Tracer = c
	s.client.Close()
	s.pool.Close()
	if s.pool, err = newPool(ctx, cfg); err != nil {
		return nil, nil, err
	}
	s.client, err = client.New(s.pool, client.Config{Namespace: s.namespace, Redis: e.Redis, Pooler: e.Pooler})
	return s, c, err
}

func idleCost(ctx context.Context, e *Env) ([]Figure, error) {
	s, count, err := e.counted(ctx, "idle")
	if err != nil {
		return nil, err
	}
	defer s.close()
	queues := make([]worker.Queue, 10)
	for i := range queues {
		queues[i] = worker.Queue{Name: fmt.Sprintf("q%d", i), Slots: 10}
	}
	w, err := worker.New(s.client, worker.Config{Queues: queues, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	worker.Handle(w, func(context.Context, *worker.Job[noop]) error { return nil })
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(run) }()
	time.Sleep(2 * time.Second)
	const window = 20 * time.Second
	before := count.n.Load()
	time.Sleep(window)
	rate := float64(count.n.Load()-before) / window.Seconds()
	cancel()
	return []Figure{{Case: "idle_10_queues", Name: "rate", Value: rate, Unit: "statements/s", Want: "<= 1", Note: "no sweeper: polls every 5 s"}}, <-ended
}

// fleetCost has 1,000 workers in the idle set, each subscribed with a connection of its own. One that gets a hint does
// what a dispatcher does: register, claim, finish. They share a small pool, so that Postgres' limit of connections
// does not decide.
func fleetCost(ctx context.Context, e *Env) ([]Figure, error) {
	const workers, jobs = 1000, 500
	s, count, err := e.counted(ctx, "fleet")
	if err != nil {
		return nil, err
	}
	defer s.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		ready atomic.Int64
		mu    sync.Mutex
		began = make(map[job.ID]time.Time)
		waits []float64
	)
	for range workers {
		wg.Go(func() {
			_ = s.idleWorker(ctx, &ready, func(rows []job.Row) {
				now := time.Now()
				mu.Lock()
				defer mu.Unlock()
				for _, r := range rows {
					waits = append(waits, ms(now.Sub(began[r.ID])))
				}
			})
		})
	}
	for ready.Load() < workers && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if err := s.warmClock(ctx); err != nil {
		return nil, err
	}
	before := count.n.Load()
	enqueue := func(n int) error {
		id := s.client.IDs().New()
		mu.Lock()
		began[id] = time.Now()
		mu.Unlock()
		_, err := s.client.Enqueue(ctx, noop{N: n}, job.Options{ID: id})
		time.Sleep(2 * time.Millisecond)
		return err
	}
	for n := range jobs {
		if err := enqueue(n); err != nil {
			return nil, err
		}
	}
	time.Sleep(500 * time.Millisecond)
	perJob := float64(count.n.Load()-before) / jobs
	cancel()
	wg.Wait()
	return []Figure{
		{Case: "idle_1000_workers", Name: "statements", Value: perJob, Unit: "statements/job", Want: "<= 3"},
		{Case: "idle_1000_workers", Name: "p50", Value: quantile(waits, 0.5), Unit: "ms"},
		{Case: "idle_1000_workers", Name: "lost", Value: float64(jobs - len(waits)), Unit: "jobs", Want: "<= 0"},
	}, nil
}

func (s *stage) idleWorker(ctx context.Context, ready *atomic.Int64, got func([]job.Row)) error {
	bus := coord.New(s.env.Redis, coord.Config{Namespace: s.namespace, Timeout: 5 * time.Second})
	c := claimer{store: s.client.Store(), session: s.client.IDs().New()}
	if err := c.open(ctx); err != nil {
		return err
	}
	name := c.session.String()
	hints, subscribed := make(chan struct{}, 1), make(chan struct{}, 1)
	signal := func(ch chan struct{}) func() {
		return func() {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_ = bus.Run(ctx, name, coord.Receiver{OnHint: func(coord.Hint) { signal(hints)() }, OnSubscribed: signal(subscribed)})
	})
	select {
	case <-subscribed:
	case <-ctx.Done():
		return nil
	}
	register := func() error { return bus.Register(ctx, name, coord.Idle{Queue: job.DefaultQueue, Free: 10}) }
	if err := register(); err != nil {
		return err
	}
	c.began = true
	for p := range c.cursor { // nothing was enqueued before
		c.cursor[p] = pgstore.Position{ReadyAt: time.Now()}
	}
	ready.Add(1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hints:
		}
		if err := register(); err != nil {
			return err
		}
		rows, err := c.claim(ctx, 10)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			got(rows)
			if err := c.finish(ctx, rows); err != nil {
				return err
			}
		}
	}
}

// warmClock lets the client learn the database's clock, which its first call asks for.
func (s *stage) warmClock(ctx context.Context) error {
	now, err := s.client.Store().Now(ctx)
	s.client.Learn(now, time.Now())
	return err
}

func needsRedis(f func(context.Context, *Env) ([]Figure, error)) func(context.Context, *Env) ([]Figure, error) {
	return func(ctx context.Context, e *Env) ([]Figure, error) {
		if e.Redis == nil {
			return nil, fmt.Errorf("this case needs Redis")
		}
		return f(ctx, e)
	}
}
