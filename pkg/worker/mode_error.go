package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirq/weir/internal/child"
)

// ErrNoChildren reports handlers that run in child processes in a program whose main does not serve them.
var ErrNoChildren = errors.New("this program's main serves no children: start it with run.Worker, or call worker.ServeChild first")

// ChildError is the failure of an attempt whose child process ended without a result, or of a command that did not exit
// with 0. The end of what it wrote to stderr is the attempt's stack.
type ChildError struct {
	Mode   string // forked, spawned or command
	Ended  string // "exited with status 3", "was ended by a signal: killed", "was killed: it held 600 MiB of memory"
	Code   int    // exit status; -1 if a signal ended it
	Line   string // last line of stderr, or the one with which Go says why a program dies; empty if it wrote none
	Stderr string // its end, at most 16 KiB
}

func (e *ChildError) Error() string {
	text := "child " + e.Ended
	if e.Mode == modeCommand {
		text = "command " + e.Ended
	}
	if e.Line == "" {
		return text
	}
	return text + ": " + e.Line
}

const modeCommand = "command"

func newChildError(mode string, exit child.Exit, stderr *child.Output) *ChildError {
	e := &ChildError{Mode: mode, Ended: exit.String(), Code: exit.Code, Line: stderr.LastLine(), Stderr: stderr.Tail()}
	if exit.Signal != 0 || exit.Lost {
		e.Code = -1
	}
	return e
}

// infraError is trouble of this host, not of the job: a program that is not there, no descriptors or memory left for a
// child, children killed before they began. The job is given back and its attempt not counted.
type infraError struct {
	err  error
	wait time.Duration // until the job may be claimed again
}

func (e *infraError) Error() string { return e.err.Error() }
func (e *infraError) Unwrap() error { return e.err }

// How long a job is put off after trouble of this host: it doubles while the trouble goes on.
const (
	infraWait    = time.Second
	infraWaitMax = 30 * time.Second
)

// infra makes err trouble of this host, and counts it.
func (w *Worker) infra(doing string, err error) error {
	n := w.children.fails.Add(1) - 1
	wait := min(infraWait<<min(n, 10), infraWaitMax)
	return &infraError{err: fmt.Errorf("%s: %w", doing, err), wait: jitter(wait)}
}

// childWorks ends the trouble.
func (w *Worker) childWorks() {
	if w.children.fails.Load() > 0 {
		w.children.fails.Store(0)
	}
	w.recovered("start child")
}

// reportInfra says it in the log, once while it goes on, and as an event for each job.
func (w *Worker) reportInfra(t *task, err error) {
	w.trouble("start child", err)
	w.events.send(Event{Type: EventError, Row: t.row, Err: err})
}
