package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/internal/demojobs"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/run"
	"github.com/weirq/weir/pkg/sweeper"
	"github.com/weirq/weir/pkg/worker"
)

// demoLease is the lease of the demo's processes, the shortest there is: nobody likes to wait.
const demoLease = 3 * time.Second

// probeQueue is where the jobs go by which the pickup is measured.
const probeQueue = "probe"

// A child is told what to do in words, a line each, on its standard input. The first is orderGo or orderHold. The end of
// the input without orderStop means that the demo is dead: the child then ends at once.
const (
	orderGo   = "go"   // let jobs end
	orderHold = "hold" // let jobs of the demo begin, but not end
	orderStop = "stop" // close and end
)

// A child reports on its standard output, a line each.
const (
	reportStart   = "start"   // job id and local time in ns: a handler is about to run
	reportRecover = "recover" // job id and local time in ns: it was taken from a dead process
	reportTick    = "tick"    // statements sent and results refused so far
)

// demoChildCommand is hidden: the demo runs it in processes of their own.
func demoChildCommand(name string, main func(context.Context, *childSide) error) *cobra.Command {
	return &cobra.Command{
		Use:    name,
		Short:  "part of the demo, which starts it by itself",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of the terminal; the demo ends us in order
			return newChildSide(os.Stdin, os.Stdout).run(cmd.Context(), main)
		},
	}
}

// childSide is a child's side of its two pipes.
type childSide struct {
	in   *bufio.Scanner
	sent statements
	gate gate

	mu  sync.Mutex
	out io.Writer
}

func newChildSide(in io.Reader, out io.Writer) *childSide {
	return &childSide{in: bufio.NewScanner(in), out: out, gate: gate{open: make(chan struct{})}}
}

// run obeys the first order, and the others while main runs.
func (c *childSide) run(ctx context.Context, main func(context.Context, *childSide) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.obey(stop) // before anything runs: a demo of few jobs is held from the start
	go func() {  // ends with the process, or by an order to stop
		for ctx.Err() == nil {
			c.obey(stop)
		}
	}()
	return main(ctx, c)
}

// obey reads one order and does it.
func (c *childSide) obey(stop func()) {
	if !c.in.Scan() {
		os.Exit(1) // the demo is dead, and soon the servers are: there is nothing left to close
	}
	switch c.in.Text() {
	case orderGo:
		c.gate.set(true)
	case orderHold:
		c.gate.set(false)
	case orderStop:
		stop()
	}
}

// report writes a line in one piece. When it returns, the demo will read it even if we are killed right after. When the
// demo is dead, the signal of the broken pipe ends this process.
func (c *childSide) report(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.out, fmt.Sprintf(format+"\n", args...))
}

// tick reports counts until ctx ends, and the last ones then.
func (c *childSide) tick(ctx context.Context, refused func() int64) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		c.report("%s %d %d", reportTick, c.sent.n.Load(), refused())
	}
}

// open returns a client on what the environment says.
func (c *childSide) open() (*client.Client, func(), error) {
	loaded, err := config.Read(config.Sources{Environ: os.Environ()})
	if err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ // the demo keeps its end
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	return run.Open(loaded.Config, run.Options{Name: "weir demo " + strings.Join(os.Args[2:], " "), Logger: log, Tracer: &c.sent})
}

// demoWorker is the main of a worker of the demo.
func demoWorker(ctx context.Context, c *childSide) error {
	q, closeAll, err := c.open()
	if err != nil {
		return err
	}
	defer closeAll()
	each, err := time.ParseDuration(os.Getenv("WEIR_DEMO_EACH"))
	if err != nil {
		return fmt.Errorf("read WEIR_DEMO_EACH: %w", err)
	}
	w, err := worker.New(q, worker.Config{
		Queues:     []worker.Queue{{Name: job.DefaultQueue, Slots: slotsEach}, {Name: probeQueue, Slots: probeSlots}},
		Lease:      demoLease,
		Middleware: []worker.Middleware{c.slowed(each)},
	})
	if err != nil {
		return err
	}
	if err := demojobs.Register(w, ""); err != nil { // in the folder that WEIR_DEMO_DIR names
		return err
	}
	var ticking sync.WaitGroup
	counted, stop := context.WithCancel(context.WithoutCancel(ctx))
	ticking.Go(func() { c.tick(counted, func() int64 { return w.Stats().Refused }) })
	err = w.Run(ctx)
	stop()
	ticking.Wait()
	return err
}

// slowed reports each start before the handler runs, and makes the jobs of the demo take their time.
func (c *childSide) slowed(each time.Duration) worker.Middleware {
	return func(ctx context.Context, row *job.Row, next func(context.Context) error) error {
		begun := time.Now()
		c.report("%s %s %d", reportStart, row.ID, begun.UnixNano())
		err := next(ctx)
		if row.Queue == probeQueue {
			return err
		}
		rest := time.NewTimer(each - time.Since(begun))
		defer rest.Stop()
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
		c.gate.pass(ctx)
		return err
	}
}

// demoSweeper is the main of the demo's sweeper.
func demoSweeper(ctx context.Context, c *childSide) error {
	q, closeAll, err := c.open()
	if err != nil {
		return err
	}
	defer closeAll()
	s, err := sweeper.New(q, sweeper.Config{Lease: demoLease, OnEvent: func(e sweeper.Event) {
		if e.What == job.Recover {
			c.report("%s %s %d", reportRecover, e.ID, time.Now().UnixNano())
		}
	}})
	if err != nil {
		return err
	}
	var ticking sync.WaitGroup
	ticking.Go(func() { c.tick(ctx, func() int64 { return 0 }) })
	err = s.Run(ctx)
	ticking.Wait()
	return err
}

// gate lets handlers end, or not yet.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	isOpen := false
	select {
	case <-g.open:
		isOpen = true
	default:
	}
	switch {
	case open && !isOpen:
		close(g.open)
	case !open && isOpen:
		g.open = make(chan struct{})
	}
}

// pass returns when the gate is open or ctx has ended.
func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
	}
}

// statements counts what a process sends to the database, as the tracer of its connections. That is the same on every
// server, whatever else uses it and whether or not pg_stat_statements is installed.
type statements struct{ n atomic.Int64 }

// TraceQueryStart counts a statement.
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

// TraceQueryEnd does nothing.
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
