package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

// Queue is a lane of this process.
type Queue struct {
	Name   string
	Slots  int // jobs of this queue that run at once, 1 to 100,000
	Weight int // share when Concurrency binds, up to 1,000; zero means 1
	// Modes are those in which this process runs the queue's jobs, as Config.Modes. Nil means those.
	Modes []job.Mode
}

// Config tunes a Worker. The zero value serves the queue "default" with 50 slots.
type Config struct {
	// Queues are the lanes, each with its own slots. Nil means "default" with 50 slots.
	Queues []Queue
	// Concurrency caps the jobs of all queues that run at once. Zero means the sum of their slots.
	Concurrency int
	// Lease is how long a silent process keeps its jobs before the sweeper gives them to another (database clock). Zero
	// means 15s; below 3s and above 1h New returns an error.
	Lease time.Duration
	// Renew is how often the lease is renewed, ± 10 %, from 10ms to Lease/3. Zero means Lease/5.
	Renew time.Duration
	// Poll is how often an idle worker looks for jobs that no hint announced, ± 10 %, at least 10ms; with Redis a minute
	// counts as the longest. Zero means 30s while a sweeper and Redis are up, else 5s.
	Poll time.Duration
	// Grace is how long running handlers may go on after Run's context has ended. Zero means 30s; 1ns is none.
	Grace time.Duration
	// ExitsBy is how long after Run's context has ended this process will be gone for certain: what still runs then is
	// given to others 2 s later. At least Grace. Zero means Grace + Lease.
	ExitsBy time.Duration
	// Abandon leaves handlers that do not return to the lease, instead of releasing their jobs at ExitsBy.
	Abandon bool
	// Timeout is for handlers that name none, of jobs that name none. Zero means 1h.
	Timeout time.Duration
	// ResultRetryFor is how long a result that cannot be written is tried again. Zero means 10m.
	ResultRetryFor time.Duration
	// MissingPayloadGrace is how long a job whose log row is missing is put off before it is discarded, counted from when
	// this process first met it. Zero means 1m.
	MissingPayloadGrace time.Duration
	// LeaseURL is a connection string for renewals, past a pooler. Empty means the client's.
	LeaseURL string
	// Middleware wraps every handler, the first outermost, in the process in which the handler runs.
	Middleware []Middleware
	// Outermost wraps every attempt in this process, around Middleware, also one whose handler runs in a child: for what
	// measures. What it changes in the row does not reach a child.
	Outermost []Middleware
	// Modes are the execution modes that this process accepts. A job runs in the one that isolates least and yet as much as
	// the job and its handler ask; where there is none it waits for a worker that accepts one. Nil means all that the main
	// can do: inline alone, unless it serves children (see ServeChild; package run does).
	Modes []job.Mode
	// Children tunes the processes of the modes forked and spawned.
	Children Children
	// OnError is called for every attempt that failed, timed out, was cancelled or lost its lease, OnFinish for every
	// attempt, also those that were snoozed or released; err is nil if it completed. They are called once, synchronously,
	// in the handler's goroutine (in another if that did not return) and with its context's values, before the result is
	// written: a slow hook holds a slot.
	// After FinishTx it is another goroutine, when it is known what the transaction came to. OnError alone is also told of a job
	// that ends without an attempt, its payload being gone, and of a result that the database refuses.
	OnError  func(ctx context.Context, row job.Row, err error, next Next)
	OnFinish func(ctx context.Context, row job.Row, err error, next Next)
	// Sweep runs a sweeper in this process, while Run does; Sweeper tunes it.
	Sweep   bool
	Sweeper sweeper.Config
	// Version is shown beside the process, Sweeper.Version beside its sweeper. Logger defaults to the client's.
	Version string
	Logger  *slog.Logger
}

// Errors of Run and Drain: one of them is active already; Run has ended; the time of a drain is over.
var (
	ErrRunning      = errors.New("worker: runs already")
	ErrClosed       = errors.New("worker: was closed")
	ErrDrainTimeout = errors.New("worker: drain did not come to an end in time")
)

// UnflushedError reports results that could not be written before the end: those jobs will run again.
type UnflushedError struct{ N int }

func (e *UnflushedError) Error() string {
	return fmt.Sprintf("worker: %d results could not be written; their jobs will run again", e.N)
}

// Worker runs jobs in this process. Register handlers, then call Run once.
type Worker struct {
	cfg    Config
	client *client.Client
	bus    *coord.Bus
	log    *slog.Logger
	host   string

	mu       sync.Mutex
	started  bool // Run was called
	ended    bool // and has returned
	draining bool
	handlers map[string]*handler

	lanes   *lanes
	claims  *pgstore.Store // on connections of our own, while Run or Drain is active
	renewal *pgstore.Store
	pools   []resetter
	session sessionKeeper
	pauses  pauses
	tasks   taskSet
	results results
	passes  passes
	takes   takes
	advice  advice
	shares  shares
	reports reports
	disp    *dispatcher
	events  events
	stats   counters

	known    []string        // kinds with a handler
	uncapped []string        // kinds that can be handed to this process: without Slots of their own
	busName  string          // this process on the bus: sessions change, it does not
	forwards chan coord.Hint // hints to pass on
	closing  atomic.Bool
	crew     crew // goroutines that run handlers
	children children
}

type resetter interface {
	Reset()
	Close()
}

// New returns a worker that takes its database, Redis and namespace from c. It does no I/O.
func New(c *client.Client, cfg Config) (*Worker, error) {
	if c == nil {
		return nil, errors.New("worker: client is nil")
	}
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	w := &Worker{cfg: cfg, client: c, bus: c.Bus(), log: cfg.Logger, handlers: make(map[string]*handler)}
	if w.log == nil {
		w.log = c.Logger()
	}
	if w.host, err = os.Hostname(); err != nil {
		w.host = "unknown"
	}
	w.lanes = newLanes(cfg.Queues, cfg.Concurrency)
	w.tasks.all = make(map[job.ID]*task)
	w.session.kick = make(chan struct{}, 1)
	w.forwards = make(chan coord.Hint, 256)
	w.busName = new(job.IDs).New().String()
	w.results.init(w)
	w.passes.init()
	w.takes.init()
	w.advice.init(w.bus, cfg.Lease)
	w.reports.init(w)
	w.disp = newDispatcher(w)
	return w, nil
}

// complete fills the defaults and checks what contradicts itself.
func (c Config) complete() (Config, error) {
	if len(c.Queues) == 0 {
		c.Queues = []Queue{{Name: job.DefaultQueue, Slots: 50}}
	}
	c.Queues = append([]Queue(nil), c.Queues...)
	sum, seen := 0, make(map[string]bool)
	for i := range c.Queues {
		q := &c.Queues[i]
		if q.Weight == 0 {
			q.Weight = 1
		}
		if err := q.check(seen); err != nil {
			return c, err
		}
		sum += q.Slots
	}
	if c.Concurrency == 0 {
		c.Concurrency = sum
	}
	fill(&c.Lease, 15*time.Second)
	fill(&c.Renew, c.Lease/5)
	fill(&c.Grace, 30*time.Second)
	fill(&c.ExitsBy, c.Grace+c.Lease)
	fill(&c.Timeout, job.DefaultTimeout)
	fill(&c.ResultRetryFor, 10*time.Minute)
	fill(&c.MissingPayloadGrace, time.Minute)
	if err := c.checkModes(); err != nil {
		return c, err
	}
	return c, c.check()
}

func (q *Queue) check(seen map[string]bool) error {
	if err := job.ValidateQueue(q.Name); err != nil {
		return err
	}
	if seen[q.Name] {
		return &job.FieldError{Field: "Queues", Got: fmt.Sprintf("%q twice", q.Name), Limit: "each queue once"}
	}
	seen[q.Name] = true
	if q.Slots < 1 || q.Slots > 100_000 {
		return &job.FieldError{Field: "Slots of queue " + q.Name, Got: fmt.Sprint(q.Slots), Limit: "1 to 100000"}
	}
	if q.Weight < 1 || q.Weight > 1000 {
		return &job.FieldError{Field: "Weight of queue " + q.Name, Got: fmt.Sprint(q.Weight), Limit: "1 to 1000"}
	}
	return nil
}

func (c *Config) check() error {
	wrong := func(field string, got any, limit string) error {
		return &job.FieldError{Field: field, Got: fmt.Sprint(got), Limit: limit}
	}
	switch {
	case c.Concurrency < 1:
		return wrong("Concurrency", c.Concurrency, "1 or more")
	case c.Lease < 3*time.Second || c.Lease > time.Hour:
		return wrong("Lease", c.Lease, "3s to 1h")
	case c.Renew < 10*time.Millisecond || c.Renew > c.Lease/3:
		return wrong("Renew", c.Renew, fmt.Sprintf("10ms to a third of Lease (%v)", c.Lease))
	case c.Poll != 0 && c.Poll < 10*time.Millisecond:
		return wrong("Poll", c.Poll, "10ms or more, or 0")
	case c.Grace < 0:
		return wrong("Grace", c.Grace, "0 or more")
	case c.ExitsBy < c.Grace:
		return wrong("ExitsBy", c.ExitsBy, fmt.Sprintf("at least Grace (%v)", c.Grace))
	case c.Timeout != job.NoTimeout && c.Timeout < time.Millisecond:
		return wrong("Timeout", c.Timeout, "1ms or more, or job.NoTimeout")
	}
	return nil
}

func fill(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

// kinds returns every kind and alias that has a handler.
func (w *Worker) kinds() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]string, 0, len(w.handlers))
	for kind := range w.handlers {
		names = append(names, kind)
	}
	return names
}

// begin checks that the worker can run and stops further registration.
func (w *Worker) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.draining, w.started && !w.ended:
		return ErrRunning
	case w.started:
		return ErrClosed
	case len(w.handlers) == 0:
		return errors.New("worker: no handler is registered: every job would wait for ever")
	}
	if err := w.prepareModesLocked(); err != nil {
		return err
	}
	w.started = true
	w.noteKinds()
	for _, h := range w.handlers {
		if h.queue != "" && w.lanes.byName[h.queue] == nil {
			w.log.Warn("kind goes to a queue that this worker does not serve", "kind", h.kind, "queue", h.queue)
		}
	}
	return nil
}

// noteKinds remembers which kinds there are, and which may be handed over: a statement that hands over does not count jobs of a kind.
func (w *Worker) noteKinds() {
	w.known, w.uncapped = nil, nil
	for kind, h := range w.handlers {
		w.known = append(w.known, kind)
		if h.slots == 0 {
			w.uncapped = append(w.uncapped, kind)
		}
	}
	slices.Sort(w.known)
	slices.Sort(w.uncapped)
}
