package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/internal/child"
	"github.com/weirq/weir/pkg/job"
)

// Children tunes the child processes in which jobs of the modes forked and spawned run.
type Children struct {
	// Count is the most forked children of this worker; each runs one job at a time. Zero means GOMAXPROCS.
	Count int
	// MaxJobs is how many jobs a forked child runs before a new one takes its place. Zero means 1000.
	MaxJobs int
	// MaxRSS is how many bytes of memory a child and what it started may hold resident: above it they are killed and the
	// attempt has failed. It is sampled, on Linux alone: every 100 ms for the child itself, every second with what it
	// started. A forked child that holds more than half of it after a job is replaced. Zero means 512 MiB, -1 any number.
	MaxRSS int64
	// MaxAge is how long a forked child lives. Zero means 1h.
	MaxAge time.Duration
	// Env names variables of this process that children get too, beside PATH, HOME, LANG, TZ and their kind; a name may end
	// in *. Nothing else of the environment reaches them.
	Env []string
	// Settings are lines of the form NAME=value for ServeChild's build. They go through the pipe: they are in no child's
	// environment, so that what a handler starts does not inherit a password.
	Settings []string
	// Output gets the lines that children print, at most 256 KiB a job. Nil discards them; the end of stderr is in the error
	// of an attempt all the same.
	Output io.Writer
	// InProcess runs forked and spawned handlers inline: for tests, whose program cannot be executed again.
	InProcess bool
}

func (c *Children) complete() error {
	if c.Count == 0 {
		c.Count = runtime.GOMAXPROCS(0)
	}
	if c.MaxJobs == 0 {
		c.MaxJobs = 1000
	}
	if c.MaxRSS == 0 {
		c.MaxRSS = 512 << 20
	}
	fill(&c.MaxAge, time.Hour)
	wrong := func(field string, got any, limit string) error {
		return &job.FieldError{Field: "Children." + field, Got: fmt.Sprint(got), Limit: limit}
	}
	switch {
	case c.Count < 1 || c.Count > 1000:
		return wrong("Count", c.Count, "1 to 1000")
	case c.MaxJobs < 1:
		return wrong("MaxJobs", c.MaxJobs, "1 or more")
	case c.MaxRSS != -1 && c.MaxRSS < 16<<20:
		return wrong("MaxRSS", c.MaxRSS, "16 MiB or more, or -1")
	case c.MaxAge < time.Second:
		return wrong("MaxAge", c.MaxAge, "1s or more")
	}
	return nil
}

// modes is a set of execution modes.
type modes uint8

const allModes = modes(1<<job.Inline | 1<<job.Forked | 1<<job.Spawned)

func modesOf(list []job.Mode) (m modes, err error) {
	for _, mode := range list {
		if mode < job.Inline || mode > job.Spawned {
			return 0, &job.FieldError{Field: "Modes", Got: mode.String(), Limit: "inline, forked and spawned"}
		}
		m |= 1 << mode
	}
	return m, nil
}

// least returns the mode that isolates least and yet as much as want; ok is false if there is none.
func (m modes) least(want job.Mode) (mode job.Mode, ok bool) {
	for mode = want; mode <= job.Spawned; mode++ {
		if m&(1<<mode) != 0 {
			return mode, true
		}
	}
	return 0, false
}

// most returns the mode that isolates most.
func (m modes) most() job.Mode {
	for mode := job.Spawned; mode > job.Inline; mode-- {
		if m&(1<<mode) != 0 {
			return mode
		}
	}
	return job.Inline
}

func (m modes) String() string {
	var names []string
	for mode := job.Inline; mode <= job.Spawned; mode++ {
		if m&(1<<mode) != 0 {
			names = append(names, mode.String())
		}
	}
	return strings.Join(names, ", ")
}

// serves is whether this program's main calls ServeChild, so that it can be executed again.
var serves atomic.Bool

// prepareModes settles which lane runs jobs in which modes, and refuses what could never run. Called when no handler comes
// any more, with mu held.
func (w *Worker) prepareModesLocked() error {
	able := child.Supported && serves.Load()
	mine, _ := modesOf(w.cfg.Modes) // checked by New
	switch {
	case w.cfg.Children.InProcess:
		mine = allModes
	case mine == 0 && able:
		mine = allModes
	case mine == 0:
		mine = 1 << job.Inline
	}
	for _, q := range w.cfg.Queues {
		n := w.lanes.byName[q.Name]
		if n.modes, _ = modesOf(q.Modes); n.modes == 0 {
			n.modes = mine
		}
		if n.modes.most() > job.Inline && !able && !w.cfg.Children.InProcess {
			return fmt.Errorf("worker: queue %s accepts %v: %w", q.Name, n.modes, errNoChildren())
		}
	}
	for _, h := range w.handlers {
		if h.mode > job.Inline && !able && (!w.cfg.Children.InProcess || h.command) {
			return fmt.Errorf("worker: kind %s runs %v: %w", h.kind, h.mode, errNoChildren())
		}
		for _, n := range w.lanes.all {
			if _, ok := n.modes.least(h.mode); !ok {
				return fmt.Errorf("worker: kind %s runs %v, which queue %s does not accept: it accepts %v", h.kind, h.mode, n.name, n.modes)
			}
		}
		if h.mode == job.Forked && !w.cfg.Children.InProcess && (h.slots == 0 || h.slots > w.cfg.Children.Count) {
			h.slots = w.cfg.Children.Count // what is claimed beyond it would only wait for a child
		}
	}
	return nil
}

func errNoChildren() error {
	if !child.Supported {
		return child.ErrUnsupported
	}
	return ErrNoChildren
}

// modeOf returns how t runs: in the least mode that this worker accepts for its queue and that isolates as much as the job
// and its handler ask. The claim has left out what there is none for.
func (w *Worker) modeOf(t *task) job.Mode {
	n := w.lanes.byName[t.row.Queue]
	if t.handler.command || t.verdicts != nil || w.cfg.Children.InProcess || n == nil {
		return job.Inline // a command is a process of its own anyway
	}
	mode, _ := n.modes.least(max(t.row.Mode, t.handler.mode))
	return mode
}

// place is where a handler runs.
type place struct {
	call   func(context.Context, *task, job.Row) ([]byte, error)
	around []Middleware // in this process
	free   func()       // deferred: gives a child back to which no middleware let the job go
}

// place finds where the handler of t runs. For a forked job it waits until a child is free: the timeout does not run yet. An
// error is the end of ctx, or trouble of this host.
func (w *Worker) place(ctx context.Context, t *task) (place, error) {
	around := slices.Clip(w.cfg.Outermost)
	mode := w.modeOf(t)
	if mode == job.Inline {
		return place{t.handler.call, append(append(around, w.cfg.Middleware...), t.handler.middleware...), func() {}}, nil
	}
	k, err := w.takeKid(ctx, mode, t.row.Kind)
	if err != nil {
		return place{}, err
	}
	used := false
	return place{
		call: func(ctx context.Context, t *task, row job.Row) ([]byte, error) {
			if used {
				return nil, errCalledTwice
			}
			used = true
			return w.inChild(ctx, t, &row, k)
		},
		around: around,
		free: func() {
			if !used {
				w.giveBackKid(k, true)
			}
		},
	}, nil
}

var errCalledTwice = errors.New("a middleware of Outermost called the handler twice")

// checkModes reports a mistake in the lists of modes.
func (c *Config) checkModes() error {
	if _, err := modesOf(c.Modes); err != nil {
		return err
	}
	for _, q := range c.Queues {
		if _, err := modesOf(q.Modes); err != nil {
			return err
		}
	}
	c.Children.Env = slices.Clone(c.Children.Env)
	return c.Children.complete()
}
