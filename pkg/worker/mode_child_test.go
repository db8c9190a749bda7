//go:build unix

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// trial is a job that does something to its process.
type trial struct {
	Do   string `json:"do"`
	N    int    `json:"n,omitempty"`
	Text string `json:"text,omitempty"`
}

func (trial) Kind() string { return "trial" }

// lone is the same, spawned.
type lone struct{ trial }

func (lone) Kind() string { return "lone" }

// buildChild is what the children of these tests are: settings are a database and a namespace.
func buildChild(settings []string) (*worker.Worker, func(), error) {
	get := func(name string) string {
		for _, line := range settings {
			if v, ok := strings.CutPrefix(line, name+"="); ok {
				return v
			}
		}
		return ""
	}
	if get("FAIL") != "" {
		return nil, nil, errors.New(get("FAIL"))
	}
	cfg, err := pgxpool.ParseConfig(get("URL"))
	if err != nil {
		return nil, nil, err
	}
	cfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(pool, client.Config{Namespace: get("NAMESPACE")})
	if err != nil {
		return nil, nil, err
	}
	w, err := worker.New(c, worker.Config{Middleware: []worker.Middleware{inChild}})
	if err != nil {
		return nil, nil, err
	}
	handleTrials(w, pool)
	return w, func() { c.Close(); pool.Close() }, nil
}

// handleTrials registers both kinds, as a main's register does in the worker and in the child.
func handleTrials(w *worker.Worker, pool *pgxpool.Pool) {
	h := trials{pool}
	worker.HandleResult(w, func(ctx context.Context, j *worker.Job[trial]) (any, error) { return h.do(ctx, &j.Args, j.FinishTx) },
		worker.HandlerOptions{Mode: job.Forked, Aliases: []string{"trial.old"}})
	worker.HandleResult(w, func(ctx context.Context, j *worker.Job[lone]) (any, error) {
		return h.do(ctx, &j.Args.trial, j.FinishTx)
	}, worker.HandlerOptions{Mode: job.Spawned})
	worker.HandleResult(w, func(_ context.Context, j *worker.Job[task]) (any, error) { return os.Getpid(), nil })
}

type placeKey struct{}

// inChild is a middleware that the handlers of children see.
func inChild(ctx context.Context, _ *job.Row, next func(context.Context) error) error {
	return next(context.WithValue(ctx, placeKey{}, "child"))
}

type trials struct{ pool *pgxpool.Pool }

func (h *trials) do(ctx context.Context, a *trial, finish func(context.Context, pgx.Tx, any) error) (any, error) {
	switch a.Do {
	case "pid":
		return os.Getpid(), nil
	case "echo":
		return a.Text, nil
	case "place":
		return ctx.Value(placeKey{}), nil
	case "env":
		return os.Environ(), nil
	case "finish":
		return nil, h.finish(ctx, finish)
	case "enqueue":
		e, err := client.FromContext(ctx).Enqueue(ctx, trial{Do: "echo"})
		return e.ID.String(), err
	case "wait":
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case "deadline":
		at, ok := ctx.Deadline()
		return []any{ok, time.Until(at) > time.Minute}, nil
	case "fail":
		return nil, errors.New(a.Text)
	case "cancel":
		return nil, job.Cancel(errors.New(a.Text))
	case "discard":
		return nil, fmt.Errorf("wrapped: %w", job.Discard(errors.New(a.Text)))
	case "snooze":
		return nil, job.Snooze(time.Hour)
	case "retry":
		return nil, job.RetryIn(2*time.Hour, errors.New(a.Text))
	case "panic":
		panic(a.Text)
	case "goexit":
		runtime.Goexit()
	}
	return h.harm(ctx, a)
}

// harm is what only a process of one's own survives.
func (h *trials) harm(ctx context.Context, a *trial) (any, error) {
	switch a.Do {
	case "exit":
		fmt.Fprintln(os.Stderr, "about to leave")
		os.Exit(a.N)
	case "segfault":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		<-ctx.Done()
	case "crash": // in a goroutine of its own: no recover reaches it
		go func() { panic("nobody catches this") }()
		select {}
	case "memory":
		var all [][]byte
		for range a.N {
			mib := make([]byte, 1<<20)
			for i := 0; i < len(mib); i += 4096 {
				mib[i] = 1
			}
			all = append(all, mib)
		}
		<-ctx.Done()
		return len(all), nil
	case "close":
		return "done", errors.Join(os.Stdout.Close(), os.Stderr.Close())
	case "stderr":
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range a.N << 10 {
			_, _ = os.Stderr.Write(line)
		}
		return "printed", nil
	case "loop":
		for n := 0; ; n++ { // not even a function call
		}
	case "stubborn":
		return nil, heedless(a.Text)
	case "leave": // in the background, and out of the group
		return nil, leave(a.Text)
	}
	return nil, fmt.Errorf("no trial %q", a.Do)
}

// leave starts a process in the background, which writes its id.
func leave(file string) error {
	if err := exec.Command("setsid", "sh", "-c", "trap '' TERM; sleep 600 & echo $! >"+file+"; wait").Start(); err != nil {
		return err
	}
	for {
		if text, _ := os.ReadFile(file); len(text) > 1 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// heedless starts two processes that ignore SIGTERM, one of them in a session of its own, and ignores everything itself.
func heedless(dir string) error {
	signal.Ignore(syscall.SIGTERM)
	for i, script := range []string{
		"trap '' TERM; echo $$ >" + dir + "/0; while :; do sleep 1; done",
		"trap '' TERM; (trap '' TERM; echo $(exec sh -c 'echo $PPID') >" + dir + "/1; while :; do sleep 1; done) & exit 0",
	} {
		cmd := exec.Command("sh", "-c", script)
		if i == 1 {
			cmd = exec.Command("setsid", "sh", "-c", script)
		}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	if err := os.WriteFile(dir+"/2", []byte(fmt.Sprint(os.Getpid())), 0o600); err != nil {
		return err
	}
	select {}
}

func (h *trials) finish(ctx context.Context, finish func(context.Context, pgx.Tx, any) error) error {
	tx, err := h.pool.Begin(ctx)
	if err != nil {
		return err
	}
	if err := finish(ctx, tx, "in its own transaction"); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
