package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// demoFlags are what the command line of weir demo says.
type demoFlags struct {
	dir  string
	jobs int
	keep bool
}

var _ = add(demoCommand)

// demoCommand shows the whole path on real files and kills a worker in the middle of it.
func demoCommand(a *app) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "two workers and a sweeper on real files; one worker is killed",
		Long: "Start two worker processes and a sweeper process, give them a job for every file\n" +
			"below a folder, kill one worker while it runs jobs, and account for every job.\n\n" +
			"Uses WEIR_POSTGRES_URL and WEIR_REDIS_URL when they are set, in a schema of its\n" +
			"own that is dropped afterwards (not with --keep); else private servers that are\n" +
			"gone afterwards.\n" +
			"With --json the figures are one line on stdout, and progress goes to stderr.\n" +
			"Exit code 1 if a job was lost, or if none was recovered.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilStopped(cmd.Context())
			defer stop()
			return runDemo(ctx, a, f)
		},
	}
	cmd.Flags().StringVar(&f.dir, "dir", ".", "folder of the files")
	cmd.Flags().IntVar(&f.jobs, "jobs", 0, "number of jobs, files are left out or repeated;\n0 is all of them, repeated to at least 5000")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "leave everything up until Ctrl-C")
	cmd.AddCommand(demoChildCommand("worker", demoWorker), demoChildCommand("sweeper", demoSweeper))
	return cmd
}

// untilStopped returns a context that ends with the first Ctrl-C, SIGTERM or SIGHUP. The second ends the process: its
// servers and children end with it all the same.
func untilStopped(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// errInterrupted is the end of a demo that was told to end.
var errInterrupted = errors.New("interrupted: everything that the demo started is gone")

// runDemo runs the demo between its servers' start and end.
func runDemo(ctx context.Context, a *app, f demoFlags) (err error) {
	if f.jobs < 0 || f.jobs > maxDemoJobs {
		return usageError{fmt.Errorf("--jobs is %d, want 1 to %d, or 0", f.jobs, maxDemoJobs)}
	}
	d := &demo{flags: f, env: a.env, screen: newScreen(a.out), ledger: newLedger()}
	if a.json {
		d.screen = &screen{out: a.err}
	}
	// Last in, first out: children before the schema they use, the schema before its server. A panic runs them too; what
	// ends without them is up to the servers' watchdogs and the children, who see that our end of their pipes is gone.
	defer func() {
		d.screen.clear()
		err = errors.Join(err, d.cleanUp())
		if ctx.Err() != nil && !d.done {
			err = errInterrupted
		}
	}()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	figures, err := d.show(ctx)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(figures)
	} else {
		err = d.summarise(ctx, figures)
	}
	d.done = true
	if err == nil && f.keep {
		err = d.keepUp(ctx)
	}
	return errors.Join(err, figures.verdict())
}

// newScreen redraws on a terminal that can show the widest line, and writes plain lines elsewhere.
func newScreen(stdout io.Writer) *screen {
	s := &screen{out: stdout}
	file, ok := stdout.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return s
	}
	width, _, err := term.GetSize(int(file.Fd()))
	s.redraw = err == nil && (width >= columns || width == 0) // 0: a terminal that does not tell
	return s
}

// keepUp waits for Ctrl-C, or for a process that ends by itself.
func (d *demo) keepUp(ctx context.Context) error {
	d.screen.say("")
	d.screen.say("  kept up until Ctrl-C: %s, the sweeper and the servers; in another shell", d.workers[1-d.victim].name)
	d.servers.tellEnvironment(d.screen, d.namespace)
	d.screen.say("    %s jobs list", ownName())
	if d.servers.postgres == nil {
		d.screen.say("  your Postgres keeps the schema %s until you drop it", d.namespace)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			d.screen.say("")
			d.screen.say("  stopped")
			return nil
		case <-tick.C:
			if err := d.childrenLive(); err != nil {
				return err
			}
		}
	}
}
