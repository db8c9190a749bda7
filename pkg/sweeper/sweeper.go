package sweeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// shutdown is how long a statement under way may go on after the end of Run's context.
const shutdown = 2 * time.Second

// Sweeper does the duties of one namespace. It is safe for concurrent use.
type Sweeper struct {
	cfg Config
	log *slog.Logger
	ids *job.IDs
	bus *coord.Bus

	client *client.Client

	life   *pgstore.Store // heartbeat and recover
	prompt *pgstore.Store // wake and fire
	slow   *pgstore.Store // all the rest

	pulse    *pulse
	alarms   alarms
	firing   firing
	insist   insist
	repairs  repairs
	rotation rotation          // guarded by its duty's turn
	uniqueAt pgstore.UniqueRow // the same
	reportAt job.ID            // where reports goes on
	// Where the duties unblock and reconcile go on; the same.
	lineAt, reconcileAt string
	beat                *duty
	duties              []*duty
	busy                atomic.Uint64
	running             atomic.Bool
}

// New returns a sweeper for the namespace of c. It does no I/O. An error names a field of cfg.
func New(c *client.Client, cfg Config) (*Sweeper, error) {
	if c == nil {
		return nil, errors.New("sweeper: client is nil")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Sweeper{
		cfg: cfg, log: cfg.Logger, ids: c.IDs(), bus: c.Bus(), client: c,
		life:     c.Store().On(newLane(c.Pool())),
		prompt:   c.Store().On(newLane(c.Pool())),
		slow:     c.Store().On(newLane(c.Pool())),
		pulse:    newPulse(cfg.Lease),
		uniqueAt: pgstore.UniqueRow{Slot: -1}, // before the first
	}
	if s.log == nil {
		s.log = c.Logger()
	}
	s.duties = []*duty{
		{name: "recover", every: cfg.Recover, step: s.recoverOnce},
		{name: "wake", every: cfg.Wake, step: s.wakeOnce, first: s.alarms.first, ring: s.ring},
		{name: "unblock", every: unblockEvery, pace: 20, eager: true, step: s.unblockOnce},
		{name: "reconcile", every: reconcileEvery, pace: 20, eager: true, step: s.reconcileOnce},
		{name: "fire", every: cfg.Fire, step: s.fireOnce, first: s.firing.first, ring: s.ringFire},
		{name: "stragglers", every: stragglersEvery, pace: 20, step: s.stragglersOnce},
		{name: "expire", every: cfg.Expire, step: s.expireOnce},
		{name: "rotate", every: cfg.Rotate, step: s.rotateOnce},
		{name: "uniques", every: uniquesEvery, step: s.uniquesOnce},
		{name: "reports", every: reportsEvery, step: s.reportsOnce},
		{name: "sessions", every: sessionsEvery, step: s.sessionsOnce},
		{name: "counts", every: countsEvery, pace: 20, step: s.countsOnce},
	}
	s.beat = &duty{name: "heartbeat", every: cfg.Lease / 5, step: func(ctx context.Context) (int, error) { return 0, s.beatOnce(ctx) }}
	return s, nil
}

// Use makes the sweeper work on pool instead of the client's. Call it before anything else. For package worker; not covered by
// the compatibility promise.
func (s *Sweeper) Use(pool *pgxpool.Pool) {
	s.life, s.prompt, s.slow = s.life.On(newLane(pool)), s.prompt.On(newLane(pool)), s.slow.On(newLane(pool))
}

// Duties returns the names of all duties.
func (s *Sweeper) Duties() []string { return slices.Clone(names) }

// RunDuty does one duty once, also one that is off, and returns how many jobs or rows it dealt with. Outside of Run
// the duty recover calls nobody dead: it has not watched the database. It then recovers what is known to be dead.
func (s *Sweeper) RunDuty(ctx context.Context, name string) (n int, err error) {
	for _, d := range s.duties {
		if d.name == name {
			return d.runOnce(ctx)
		}
	}
	return 0, fmt.Errorf("sweeper: no duty %q, want one of %v", name, names)
}

// Run does the duties until ctx ends and all it started is gone. It returns nil then, and an error at once if it is
// running already. An outage of Postgres or Redis does not end it.
func (s *Sweeper) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("sweeper: it is running already")
	}
	defer s.running.Store(false)
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(shutdown, cancel)
		context.AfterFunc(work, func() { timer.Stop() }) // all was over sooner
	})
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { s.loop(ctx, work, s.beat) })
	for _, d := range s.duties {
		if !slices.Contains(s.cfg.DutiesOff, d.name) {
			wg.Go(func() { s.loop(ctx, work, d) })
		}
	}
	wg.Wait()
	s.closeSession(ctx)
	return nil
}
