package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// childName is what a child process calls itself, towards Postgres too.
const childName = "weir-child"

// childConns is how many connections to Postgres a child process may open.
const childConns = 2

// serveChild makes this main one that is executed again for child processes; see worker.ServeChild.
func serveChild(register Register, adjust []func(*worker.Config)) (code int, isChild bool) {
	return worker.ServeChild(func(settings []string) (*worker.Worker, func(), error) {
		// The driver reads PG… variables by itself. What a handler starts must not inherit them.
		restore := lend(settings)
		defer restore()
		return openChild(settings, register, adjust)
	})
}

// openChild does for a child what runWorker does for a worker, up to its start and without what listens or watches.
func openChild(settings []string, register Register, adjust []func(*worker.Config)) (*worker.Worker, func(), error) {
	p, _, over := begin(childName, os.Args[1:], settings, io.Discard, os.Stderr)
	if over {
		return nil, nil, errors.New("the configuration has changed since the worker began, and is not right now: see the line before")
	}
	cfg := p.loaded.Config
	cfg.Postgres.MaxConns = min(cfg.Postgres.MaxConns, childConns)
	c, closeAll, err := Open(cfg, Options{Name: childName, Logger: p.log})
	if err != nil {
		return nil, nil, err
	}
	w, err := p.newWorker(c, register, adjust, func(*worker.Config) {})
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return w, closeAll, nil
}

// newWorker returns a worker with all its handlers: those of the program and those of the configuration.
func (p *process) newWorker(c *client.Client, register Register, adjust []func(*worker.Config), last func(*worker.Config)) (*worker.Worker, error) {
	settings := WorkerConfig(p.loaded.Config)
	settings.Logger, settings.Version = p.log, shortVersion()
	settings.Children.Settings, settings.Children.Output = p.handDown(), p.stderr
	for _, f := range adjust {
		f(&settings)
	}
	last(&settings)
	w, err := worker.New(c, settings)
	if err != nil {
		return nil, err
	}
	if err := register(w, c); err != nil {
		return nil, fmt.Errorf("register handlers: %w", err)
	}
	return w, p.registerConfigured(w)
}

// isPostgres reports whether a line of the environment is one that the driver reads.
func isPostgres(line string) bool { return strings.HasPrefix(line, "PG") }

// handDown returns the variables that a child is told through its pipe: they are in no child's environment.
func (p *process) handDown() (lines []string) {
	for _, line := range p.env {
		if strings.HasPrefix(line, "WEIR_") || isPostgres(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// lend puts PG… variables into the environment until they are taken out again.
func lend(lines []string) (restore func()) {
	var names []string
	for _, line := range lines {
		if name, value, _ := strings.Cut(line, "="); isPostgres(line) && os.Getenv(name) == "" {
			_ = os.Setenv(name, value) // refused for a name that no environment can have
			names = append(names, name)
		}
	}
	return func() {
		for _, name := range names {
			_ = os.Unsetenv(name)
		}
	}
}

// registerConfigured adds the handlers of worker.handlers.
func (p *process) registerConfigured(w *worker.Worker) (err error) {
	for _, h := range p.loaded.Config.Worker.Handlers {
		if err := p.registerOne(w, h); err != nil {
			return fmt.Errorf("worker.handlers (%s): kind %s: %w", p.loaded.Source("worker.handlers"), h.Kind, err)
		}
	}
	return nil
}

func (p *process) registerOne(w *worker.Worker, h config.Handler) (err error) {
	defer func() { // for a programmer it is a panic, here it is somebody's file
		if r := recover(); r != nil {
			err = errors.New(strings.TrimPrefix(fmt.Sprint(r), "worker: "))
		}
	}()
	options := worker.HandlerOptions{Timeout: h.Timeout, Slots: h.Slots}
	if h.Webhook == "" {
		worker.HandleCommand(w, h.Kind, worker.Command{
			Args: h.Command, Dir: p.dirOf(h.Dir), Env: h.Env, RetryAfter: h.RetryAfter, MaxRSS: int64(h.MaxRSS),
		}, options)
		return nil
	}
	hook := worker.Webhook{URL: h.Webhook, RetryAfter: h.RetryAfter}
	if h.TokenFile != "" {
		text, err := os.ReadFile(filepath.Join(p.dirOf(""), h.TokenFile))
		if filepath.IsAbs(h.TokenFile) {
			text, err = os.ReadFile(h.TokenFile)
		}
		if err != nil {
			return fmt.Errorf("token_file: %w", err)
		}
		hook.Token = strings.TrimSpace(string(text))
	}
	worker.HandleWebhook(w, h.Kind, hook, options)
	return nil
}

// dirOf returns where a command runs: below the folder of the configuration file, or of the process without one.
func (p *process) dirOf(dir string) string {
	if filepath.IsAbs(dir) || p.loaded.Path() == "" {
		return dir
	}
	return filepath.Join(filepath.Dir(p.loaded.Path()), dir)
}

// modesOf reads names that the configuration has checked.
func modesOf(names []string) (modes []job.Mode) {
	for _, name := range names {
		if m, err := job.ParseMode(name); err == nil {
			modes = append(modes, m)
		}
	}
	return modes
}

func childrenConfig(c config.Children) worker.Children {
	return worker.Children{Count: c.Count, MaxJobs: c.MaxJobs, MaxRSS: int64(c.MaxRSS), MaxAge: max(c.MaxAge, time.Second), Env: slices.Clone(c.Env)}
}
