package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore/migrate"
	"github.com/weirq/weir/pkg/worker"
)

// args is the job of all peers: a small payload that the handler decodes.
type args struct {
	N int `json:"n"`
}

// Kind is the job's name, for Weir and River alike.
func (args) Kind() string { return "bench" }

type weirPeer struct{}

func (weirPeer) name() string { return "weir" }

func (weirPeer) open(ctx context.Context, s *servers) (arena, error) {
	schema := s.schema("weir")
	if _, err := migrate.Up(ctx, s.pool, migrate.Config{Schema: schema, Ahead: 1}); err != nil {
		return nil, err
	}
	cfg := client.Config{Namespace: schema, Redis: s.redis}
	c, err := client.New(s.pool, cfg)
	if err != nil {
		return nil, err
	}
	// The worker has a client of its own, as in a process of its own: what is enqueued reaches it over Redis.
	w, err := client.New(s.pool, cfg)
	return &weirArena{s: s, schema: schema, producer: c, workers: w}, err
}

type weirArena struct {
	s                 *servers
	schema            string
	producer, workers *client.Client
}

func (a *weirArena) enqueue(ctx context.Context, from, n int) error {
	if n == 1 {
		_, err := a.producer.Enqueue(ctx, args{N: from})
		return err
	}
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i].Args = args{N: from + i}
	}
	_, err := a.producer.EnqueueMany(ctx, specs)
	return err
}

func (a *weirArena) enqueueInTx(ctx context.Context, n int) error {
	return a.producer.InTx(ctx, func(tx pgx.Tx) error {
		_, err := a.producer.EnqueueTx(ctx, tx, args{N: n})
		return err
	})
}

func (a *weirArena) enqueueIn(ctx context.Context, n int, delay time.Duration) error {
	_, err := a.producer.Enqueue(ctx, args{N: n}, job.Options{Delay: delay})
	return err
}

func (a *weirArena) work(ctx context.Context, slots int, handle func(context.Context, int) error) (func() error, error) {
	w, err := worker.New(a.workers, worker.Config{
		Queues: []worker.Queue{{Name: job.DefaultQueue, Slots: slots}}, Logger: slog.New(slog.DiscardHandler),
		Sweep: true, // a deployment has a sweeper, as River's client has its maintenance
	})
	if err != nil {
		return nil, err
	}
	worker.Handle(w, func(ctx context.Context, j *worker.Job[args]) error { return handle(ctx, j.Args.N) })
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			return fmt.Errorf("weir: the worker does not end")
		}
	}, nil
}

func (a *weirArena) finished(ctx context.Context) (n int64, err error) {
	return a.s.count(ctx, fmt.Sprintf("SELECT count(*) FROM %q.outcomes", a.schema))
}

func (a *weirArena) clear(ctx context.Context) error {
	_, err := a.s.pool.Exec(ctx, fmt.Sprintf("TRUNCATE %[1]q.jobs, %[1]q.live, %[1]q.outcomes", a.schema))
	return err
}

func (a *weirArena) close() {
	a.producer.Close()
	a.workers.Close()
	a.s.drop(a.schema)
}
