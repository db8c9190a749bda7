package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverPeer is River with its defaults, or tuned where a field is not zero.
type riverPeer struct {
	label          string
	cooldown, poll time.Duration
	workers        int // at least so many slots
}

func (p riverPeer) name() string { return p.label }

func (p riverPeer) open(ctx context.Context, s *servers) (arena, error) {
	schema := s.schema("river")
	if _, err := s.pool.Exec(ctx, fmt.Sprintf("CREATE SCHEMA %q", schema)); err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(s.pool)
	quiet := slog.New(slog.DiscardHandler)
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: schema, Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	producer, err := riverqueue.NewClient(driver, &riverqueue.Config{Schema: schema, Logger: quiet})
	return &riverArena{p: p, s: s, schema: schema, producer: producer}, err
}

type riverArena struct {
	p        riverPeer
	s        *servers
	schema   string
	producer *riverqueue.Client[pgx.Tx]
}

func (a *riverArena) enqueue(ctx context.Context, from, n int) error {
	if n == 1 {
		_, err := a.producer.Insert(ctx, args{N: from}, nil)
		return err
	}
	params := make([]riverqueue.InsertManyParams, n)
	for i := range params {
		params[i].Args = args{N: from + i}
	}
	_, err := a.producer.InsertManyFast(ctx, params)
	return err
}

func (a *riverArena) enqueueInTx(ctx context.Context, n int) error {
	return pgx.BeginFunc(ctx, a.s.pool, func(tx pgx.Tx) error {
		_, err := a.producer.InsertTx(ctx, tx, args{N: n}, nil)
		return err
	})
}

func (a *riverArena) enqueueIn(ctx context.Context, n int, delay time.Duration) error {
	_, err := a.producer.Insert(ctx, args{N: n}, &riverqueue.InsertOpts{ScheduledAt: time.Now().Add(delay)})
	return err
}

// benchWorker calls a function for each job.
type benchWorker struct {
	riverqueue.WorkerDefaults[args]
	handle func(context.Context, int) error
}

func (w *benchWorker) Work(ctx context.Context, j *riverqueue.Job[args]) error {
	return w.handle(ctx, j.Args.N)
}

func (a *riverArena) work(ctx context.Context, slots int, handle func(context.Context, int) error) (func() error, error) {
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &benchWorker{handle: handle})
	c, err := riverqueue.NewClient(riverpgxv5.New(a.s.pool), &riverqueue.Config{
		Schema: a.schema, Logger: slog.New(slog.DiscardHandler), Workers: workers,
		Queues:        map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: max(slots, a.p.workers)}},
		FetchCooldown: a.p.cooldown, FetchPollInterval: a.p.poll,
	})
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return c.Stop(ctx)
	}, nil
}

func (a *riverArena) finished(ctx context.Context) (int64, error) {
	return a.s.count(ctx, fmt.Sprintf("SELECT count(*) FROM %q.river_job WHERE state = 'completed'", a.schema))
}

func (a *riverArena) clear(ctx context.Context) error {
	_, err := a.s.pool.Exec(ctx, fmt.Sprintf("TRUNCATE %q.river_job", a.schema))
	return err
}

func (a *riverArena) close() { a.s.drop(a.schema) }
