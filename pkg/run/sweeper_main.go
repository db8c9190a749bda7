package run

import (
	"context"
	"io"
	"sync"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/sweeper"
)

// SweeperMain is Sweeper with its surroundings given; see WorkerMain.
func SweeperMain(ctx context.Context, args, env []string, stdout, stderr io.Writer, adjust ...func(*sweeper.Config)) int {
	p, code, done := begin("weir-sweeper", args, env, stdout, stderr)
	if done {
		return code
	}
	if err := p.runSweeper(ctx, adjust); err != nil {
		return p.fail(err)
	}
	return exitDone
}

func (p *process) runSweeper(ctx context.Context, adjust []func(*sweeper.Config)) error {
	cfg := p.loaded.Config
	contact := newContact()
	c, closeAll, err := Open(cfg, Options{Name: p.name, Logger: p.log, Tracer: contact})
	if err != nil {
		return err
	}
	defer closeAll()
	settings, err := SweeperConfig(cfg)
	if err != nil {
		return err
	}
	settings.Logger, settings.Version = p.log, shortVersion()
	for _, f := range adjust {
		f(&settings)
	}
	s, err := sweeper.New(c, settings)
	if err != nil {
		return err
	}
	registry := newRegistry()
	registry.MustRegister(newCollector(s.Stats, sweeperMetrics), newDuties(func() []sweeper.DutyStats { return s.Stats().Duties }),
		newRepairs(func() map[string]uint64 { return s.Stats().Repairs }), newCollector(c.Bus, busMetrics), newCollector(c.Pool().Stat, poolMetrics), newCollector(contact.self, contactMetrics))
	h := &sweeperHealth{stats: s.Stats, bus: c.Bus(), contact: contact, lease: cfg.Timing.Lease, off: settings.DutiesOff}
	stop, err := p.serve("sweeper.http.listen", cfg.Sweeper.HTTP, routes(h, registry, p.log))
	if err != nil {
		return err
	}
	defer stop()
	if err := AwaitSchema(ctx, c.Pool(), p.loaded, p.log); err != nil {
		return unlessEnded(ctx, err)
	}
	declared := p.declareSchedules(ctx, c)
	defer declared()
	h.phase.Store(serving)
	p.log.Info("sweeper serves", "namespace", cfg.Namespace, "version", shortVersion())
	context.AfterFunc(ctx, func() {
		h.phase.Store(closing)
		p.log.Info("closing", "why", why(ctx))
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { p.ownLimits(own, c) })
	return s.Run(ctx)
}

// SweeperConfig returns what cfg says to a sweeper. Version, Logger and OnEvent are the caller's to add.
func SweeperConfig(cfg config.Config) (sweeper.Config, error) {
	m, err := SchemaConfig(cfg)
	if err != nil {
		return sweeper.Config{}, err
	}
	return sweeper.Config{
		Lease: cfg.Timing.Lease, Recover: cfg.Timing.Recover, Expire: cfg.Timing.Expire,
		Retention: sweeper.Retention{Completed: cfg.Sweeper.Retention.Completed, Dead: cfg.Sweeper.Retention.Dead},
		Width:     m.Partitions, Ahead: m.Ahead, DutiesOff: cfg.Sweeper.DutiesOff,
	}, nil
}
