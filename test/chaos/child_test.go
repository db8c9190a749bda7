//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
	"github.com/weirq/weir/pkg/worker"
)

// specVariable makes this binary a process under test; its value is a spec.
const specVariable = "WEIR_FAULTS_PROCESS"

// The exit codes of a process under test.
const (
	exitClean     = 0
	exitFailed    = 1
	exitForced    = 3 // by a second signal
	exitUnflushed = 4
)

// spec says what a process under test is.
type spec struct {
	Role, Name                 string // role: worker, sweeper or producer
	Postgres, Redis, Namespace string
	Dir                        string // of the ledgers
	Pooler                     bool

	Queues         map[string]int // slots by name; nil: default with 10
	Loops          int            // workers in this process; zero: one
	Lease, Poll    time.Duration
	Grace, ExitsBy time.Duration
	Sweep          bool
	Wake, Recover  time.Duration
	Rotate         time.Duration
	Width          pgstore.Width
	TraceClaims    bool
	Rate           int // producer: jobs a second
	Job            work
	Mix            bool // producer: of all kinds, see mixture
	Gauge          bool // write down each second how many goroutines there are
	ClientTimeout  time.Duration
	Book           string        // URL of the database with the book, past proxies; empty: no jobs with keys run here
	Patience       time.Duration // with Redis; zero: the default
	Pauses         time.Duration // most time that passes after each statement that takes jobs
	DieAt          step          // where this process kills itself; zero: nowhere
	Shift          time.Duration // how far this process' wall clock is ahead of the machine's; the ledger is not
}

// runChild is the main function of a process under test. It ends when its standard input does, since then the test is
// gone; with the first SIGTERM or SIGINT in order; with the second at once.
func runChild(text string) int {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(exitFailed)
	}()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		stop()
		<-signals
		os.Exit(exitForced)
	}()
	err := s.run(ctx)
	var unflushed *worker.UnflushedError
	switch {
	case errors.As(err, &unflushed):
		fmt.Fprintln(os.Stderr, err)
		return exitUnflushed
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return exitClean
}

func (s *spec) run(ctx context.Context) error {
	l, err := openLedger(s.Dir, s.Name)
	if err != nil {
		return err
	}
	if err := l.shift(s.Shift); err != nil {
		return err
	}
	pool, err := s.pool(l)
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg := client.Config{
		Namespace: s.Namespace, Pooler: s.Pooler, Timeout: s.ClientTimeout, RedisTimeout: s.Patience,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if s.Redis != "" {
		opt, err := redis.ParseURL(s.Redis)
		if err != nil {
			return err
		}
		rdb := redis.NewClient(opt)
		defer rdb.Close()
		cfg.Redis = rdb
	}
	c, err := client.New(pool, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	if s.Gauge {
		go s.gauge(ctx)
	}
	switch s.Role {
	case "worker":
		return s.work(ctx, c, l)
	case "sweeper":
		sw, err := sweeper.New(c, s.sweeper())
		if err != nil {
			return err
		}
		return sw.Run(ctx)
	case "producer":
		(&producer{client: c, ledger: l, args: s.Job, mix: s.Mix}).run(ctx, s.Rate)
		return nil
	}
	return fmt.Errorf("unknown role %q", s.Role)
}

func (s *spec) pool(l *ledger) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(s.Postgres)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 8
	cfg.ConnConfig.RuntimeParams["application_name"] = s.Name
	if s.Pooler {
		delete(cfg.ConnConfig.RuntimeParams, "application_name")
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // for the handlers' own statements
	}
	switch {
	case s.TraceClaims:
		cfg.ConnConfig.Tracer = claimTracer{l}
	case s.Pauses > 0:
		cfg.ConnConfig.Tracer = pauser(s.Pauses)
	case s.DieAt.Verb != "":
		cfg.ConnConfig.Tracer = &killer{at: s.DieAt}
	}
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

func (s *spec) sweeper() sweeper.Config {
	return sweeper.Config{Lease: s.Lease, Recover: s.Recover, Wake: s.Wake, Rotate: s.Rotate, Width: s.Width}
}

func (s *spec) work(ctx context.Context, c *client.Client, l *ledger) error {
	cfg := worker.Config{
		Lease: s.Lease, Poll: s.Poll, Grace: s.Grace, ExitsBy: s.ExitsBy, Sweep: s.Sweep, Sweeper: s.sweeper(), Version: s.Name,
	}
	for name, slots := range s.Queues {
		cfg.Queues = append(cfg.Queues, worker.Queue{Name: name, Slots: slots})
	}
	var b *book
	if s.Book != "" {
		var err error
		// Never closed: a handler that ignores the end of its worker writes to it until the process is gone.
		if b, err = openBook(s.Book, s.Namespace); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, max(s.Loops, 1))
	for i := range errs {
		w, err := worker.New(c, cfg)
		if err != nil {
			return err
		}
		h := &handlers{client: c, ledger: l, book: b}
		worker.Handle(w, h.work)
		if b != nil {
			worker.Handle(w, h.keyed)
		}
		wg.Go(func() { errs[i] = w.Run(ctx) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	l.note(event{What: closed, Err: errText(err)})
	return err
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
