package run

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/sweeper"
	"github.com/weirq/weir/pkg/worker"
)

// ErrUnflushed reports results that could not be written before the end: their jobs will run again.
type ErrUnflushed = worker.UnflushedError

// Register adds a program's handlers to the worker. It is called once, before anything is connected; c is for handlers that
// enqueue. An error ends the process.
type Register func(w *worker.Worker, c *client.Client) error

// Worker is the whole main of a worker process. It does not return. adjust, if given, may change what the configuration does
// not speak of, such as OnError or Middleware.
//
// The program is executed again for its child processes (job.Forked, job.Spawned): register and adjust are then called in the
// child too, with the same flags and configuration, and nothing else of this function happens there. What main does before it
// calls Worker happens in every child.
func Worker(register func(*worker.Worker, *client.Client) error, adjust ...func(*worker.Config)) {
	if code, isChild := serveChild(register, adjust); isChild {
		os.Exit(code)
	}
	os.Exit(untilSignal(func(ctx context.Context) int {
		return WorkerMain(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr, register, adjust...)
	}))
}

// Sweeper is the whole main of a sweeper process. It does not return.
func Sweeper(adjust ...func(*sweeper.Config)) {
	os.Exit(untilSignal(func(ctx context.Context) int {
		return SweeperMain(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr, adjust...)
	}))
}

// signalled is the cause of a context that a signal ended.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return s.String() }

// untilSignal runs f with a context that the first signal ends. The second ends the process, whatever f is at.
func untilSignal(f func(context.Context) int) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	go func() { // ends with the process
		s := <-signals
		cancel(signalled{s})
		os.Exit(exitCode(<-signals))
	}()
	return f(ctx)
}

// exitCode is what a shell shows for a process that a signal ended.
func exitCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

// The exit codes of WorkerMain and SweeperMain.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// why names what ended ctx, for the log.
func why(ctx context.Context) string {
	var s signalled
	if errors.As(context.Cause(ctx), &s) {
		return s.String()
	}
	return "asked to"
}
