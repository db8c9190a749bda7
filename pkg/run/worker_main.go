package run

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/worker"
)

// WorkerMain is Worker with its surroundings given: args without the program's name, env as os.Environ returns it. It
// returns the exit code when ctx has ended and all is closed, or when it cannot begin.
func WorkerMain(ctx context.Context, args, env []string, stdout, stderr io.Writer,
	register func(*worker.Worker, *client.Client) error, adjust ...func(*worker.Config)) int {
	p, code, done := begin("weir-worker", args, env, stdout, stderr)
	if done {
		return code
	}
	if err := p.runWorker(ctx, register, adjust); err != nil {
		return p.fail(err)
	}
	return exitDone
}

func (p *process) runWorker(ctx context.Context, register Register, adjust []func(*worker.Config)) error {
	cfg := p.loaded.Config
	contact := newContact()
	c, closeAll, err := Open(cfg, Options{Name: p.name, Logger: p.log, Tracer: contact})
	if err != nil {
		return err
	}
	defer closeAll()
	registry := newRegistry()
	w, err := p.newWorker(c, register, adjust, newAttempts(registry).watch)
	if err != nil {
		return err
	}
	registry.MustRegister(newCollector(w.Stats, workerMetrics), newCollector(c.Bus, busMetrics),
		newCollector(c.Pool().Stat, poolMetrics), newCollector(contact.self, contactMetrics))
	h := &workerHealth{stats: w.Stats, bus: c.Bus(), contact: contact, lease: cfg.Timing.Lease, poll: cfg.Timing.Poll, connect: cfg.Postgres.ConnectTimeout}
	stop, err := p.serve("worker.http.listen", cfg.Worker.HTTP, routes(h, registry, p.log))
	if err != nil {
		return err
	}
	defer stop()
	if err := AwaitSchema(ctx, c.Pool(), p.loaded, p.log); err != nil {
		return unlessEnded(ctx, err)
	}
	return p.work(ctx, w, h, cfg.Worker)
}

// work runs the worker until it has closed.
func (p *process) work(ctx context.Context, w *worker.Worker, h *workerHealth, cfg config.Worker) error {
	h.phase.Store(serving)
	p.log.Info("worker serves", "queues", queueNames(cfg.Queues), "version", shortVersion())
	began := make(chan time.Time, 1)
	stop := context.AfterFunc(ctx, func() {
		h.phase.Store(closing)
		began <- time.Now()
		p.log.Info("closing: a second signal ends the process at once", "why", why(ctx), "running", w.Stats().Running, "grace", cfg.Grace)
	})
	err := w.Run(ctx)
	if stop() {
		return err // it ended by itself
	}
	var unflushed *ErrUnflushed
	if err == nil || errors.As(err, &unflushed) {
		p.log.Info("closed", "after", time.Since(<-began).Round(time.Millisecond), "released", w.Stats().Released)
	}
	return err
}

// unlessEnded returns nil when ctx has ended: to be told to stop before the database came is no failure.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// WorkerConfig returns what cfg says to a worker. Version, Logger and hooks are the caller's to add.
func WorkerConfig(cfg config.Config) worker.Config {
	w := worker.Config{
		Concurrency: cfg.Worker.Concurrency, Lease: cfg.Timing.Lease, Renew: cfg.Timing.Renew, Poll: cfg.Timing.Poll,
		// Zero is "at once" in the configuration and "the default" in package worker.
		Grace: max(cfg.Worker.Grace, 1), ExitsBy: cfg.Worker.ExitsBy, Abandon: cfg.Worker.Abandon,
		ResultRetryFor: cfg.Timing.ResultRetryFor, MissingPayloadGrace: cfg.Timing.MissingPayloadGrace,
		LeaseURL: cfg.Postgres.LeaseURL.Reveal(), Modes: modesOf(cfg.Worker.Modes), Children: childrenConfig(cfg.Worker.Children),
	}
	for _, q := range cfg.Worker.Queues {
		w.Queues = append(w.Queues, worker.Queue{Name: q.Name, Slots: q.Slots, Weight: q.Weight, Modes: modesOf(q.Modes)})
	}
	return w
}

func queueNames(queues []config.Queue) (names []string) {
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names
}

// The phases of a process.
const (
	starting int32 = iota // waiting for the database and its schema
	serving
	closing
)

type phase struct{ atomic.Int32 }

// notServing says why a process that is in another phase is not ready.
func (p *phase) notServing() string {
	switch p.Load() {
	case starting:
		return "starting: waiting for postgres"
	case closing:
		return "closing"
	}
	return ""
}
