package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weirq/weir/internal/child"
	"github.com/weirq/weir/pkg/job"
)

// exitRetryLater is the exit status by which a command asks to be tried again later: EX_TEMPFAIL of sysexits.h.
const exitRetryLater = 75

// Command is a program that handles jobs of a kind, in whatever language. It reads the payload from its standard input and
// writes its result to its standard output: JSON as it is, other text becomes a JSON string, nothing is no result. Exit
// status 0 completes the job, 75 puts it off by RetryAfter without using an attempt, any other fails the attempt with the
// last line of stderr as its error. It runs in a process group of its own, which gets SIGTERM at the end of the job's
// context and SIGKILL half a second later (three when it was cancelled or the worker closes), and which is killed when the
// program has ended: what it left in the background ends with it.
type Command struct {
	// Args are the program and its arguments. They are the same for every job: nothing of a job is ever part of them. A
	// program without a slash is looked up in PATH, one with it below Dir.
	Args []string
	// Dir is the directory in which it runs. Empty means the worker's.
	Dir string
	// Env is added to its environment: NAME=value, or NAME to pass on the worker's. Beside it there are the variables of
	// Children.Env and WEIR_JOB_ID, …_KIND, …_QUEUE, …_PRIORITY, …_ATTEMPT, …_MAX_ATTEMPTS, …_FENCE, …_TIMEOUT_MS (if there
	// is one) and …_TRACEPARENT (if it has one); nothing else.
	Env []string
	// RetryAfter is how long exit status 75 puts a job off. Zero means 1m.
	RetryAfter time.Duration
	// MaxRSS is as in Children. Zero means that.
	MaxRSS int64
}

func (c *Command) check() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return &job.FieldError{Field: "Command.Args", Got: "empty", Limit: "a program"}
	}
	for _, text := range append(append([]string{c.Dir}, c.Args...), c.Env...) {
		if strings.ContainsRune(text, 0) {
			return &job.FieldError{Field: "Command", Got: "a NUL", Limit: "text without NUL"}
		}
	}
	if c.RetryAfter < 0 || c.RetryAfter > maxRetryIn {
		return &job.FieldError{Field: "Command.RetryAfter", Got: c.RetryAfter.String(), Limit: "0 to 8760h"}
	}
	return nil
}

// HandleCommand registers a program for a kind. Options may be given once; Mode is spawned, whatever they say. It panics on
// a programmer's mistake, as Handle does.
func HandleCommand(w *Worker, kind string, c Command, opts ...HandlerOptions) {
	if err := c.check(); err != nil {
		panic("worker: HandleCommand: " + err.Error())
	}
	if c.RetryAfter == 0 {
		c.RetryAfter = time.Minute
	}
	h := &handler{kind: kind}
	h.apply(opts)
	h.mode, h.command = job.Spawned, true
	h.call = func(ctx context.Context, t *task, row job.Row) ([]byte, error) { return c.run(ctx, t, &row) }
	w.register(h)
}

// path finds the program.
func (c *Command) path() (string, error) {
	if !strings.Contains(c.Args[0], "/") {
		path, err := exec.LookPath(c.Args[0])
		if err != nil {
			return "", err
		}
		return filepath.Abs(path)
	}
	if filepath.IsAbs(c.Args[0]) {
		return c.Args[0], nil
	}
	return filepath.Abs(filepath.Join(c.Dir, c.Args[0]))
}

// running is a command that runs.
type running struct {
	proc   *child.Process
	stdin  *os.File
	stdout *os.File
	stderr *child.Output
}

func (c *Command) run(ctx context.Context, t *task, row *job.Row) ([]byte, error) {
	w := t.worker
	r, err := c.start(ctx, w, row)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, w.infra("start "+c.Args[0], err)
	}
	w.childWorks()
	go func() {
		_, _ = r.stdin.Write(row.Payload) // a program that does not read all of it may have its reasons
		_ = r.stdin.Close()
	}()
	out, exit, err := r.wait(ctx)
	switch {
	case errors.Is(err, child.ErrTooLong):
		return nil, job.Discard(&job.FieldError{
			Field: "result", Got: "a longer output", Limit: fmt.Sprintf("at most %d bytes", job.MaxResultBytes),
		})
	case exit.Lost:
		return nil, w.infra("run "+c.Args[0], errors.New("the command "+exit.String()))
	case exit.Signal == 0 && exit.Code == exitRetryLater:
		return nil, job.Snooze(c.RetryAfter)
	case exit.Signal != 0 || exit.Code != 0:
		return nil, newChildError(modeCommand, exit, r.stderr)
	}
	return resultOf(out)
}

// resultOf makes the result of what a command or a webhook gave.
func resultOf(out []byte) ([]byte, error) {
	out = bytes.TrimSpace(out)
	switch {
	case len(out) == 0:
		return nil, nil
	case json.Valid(out):
		return out, nil
	}
	return encodeResult(strings.ToValidUTF8(string(out), "\uFFFD"))
}

func (c *Command) start(ctx context.Context, w *Worker, row *job.Row) (r *running, err error) {
	path, err := c.path()
	if err != nil {
		return nil, err
	}
	if c.Dir != "" {
		if _, err := os.Stat(c.Dir); err != nil {
			return nil, err // else it would be said of the program
		}
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // the child's ends: it has its copies
		}
	}()
	r = new(running)
	theirs, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	files, r.stdin = append(files, theirs), stdin
	stdout, theirs, err := os.Pipe()
	if err != nil {
		_ = stdin.Close() // unused
		return nil, err
	}
	files, r.stdout = append(files, theirs), stdout
	stderr, theirs, err := os.Pipe()
	if err != nil {
		_, _ = stdin.Close(), stdout.Close() // unused
		return nil, err
	}
	files = append(files, theirs)
	r.stderr = child.NewOutput(stderr, w.cfg.Children.Output)
	limit := c.MaxRSS
	if limit == 0 {
		limit = w.cfg.Children.MaxRSS
	}
	r.proc, err = w.children.launcher.Start(ctx, child.Spec{
		Path: path, Args: c.Args, Env: c.env(ctx, w, row), Dir: c.Dir, Files: files, MaxRSS: max(limit, 0), Tied: true,
	})
	if err != nil {
		_, _ = stdin.Close(), stdout.Close() // unused
		return nil, err
	}
	return r, nil
}

// wait reads what the command prints until it has ended, and ends it when ctx does or when that is too much.
func (r *running) wait(ctx context.Context) (out []byte, exit child.Exit, err error) {
	type output struct {
		out []byte
		err error
	}
	read := make(chan output, 1)
	go func() {
		out, err := child.ReadAll(r.stdout, job.MaxResultBytes)
		if errors.Is(err, child.ErrTooLong) {
			r.proc.Kill()
		}
		read <- output{out, err}
	}()
	kill := time.NewTimer(time.Hour)
	kill.Stop()
	defer kill.Stop()
	for ended := ctx.Done(); ; {
		select {
		case <-ended:
			ended = nil
			r.proc.Terminate()
			kill.Reset(patience(context.Cause(ctx)))
			continue
		case <-kill.C:
			r.proc.Kill()
			continue
		case <-r.proc.Done():
		}
		break
	}
	// Its group is dead. What had left the group may still hold the pipes open for a moment.
	_ = r.stdout.SetReadDeadline(time.Now().Add(quitWithin))
	o := <-read
	r.stderr.Await(quitWithin)
	return o.out, r.proc.Exit(), o.err
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}(-[0-9a-f]+)+$`)

// env is the whole environment of a command. The values that producers choose are checked names and numbers; a payload is
// not among them.
func (c *Command) env(ctx context.Context, w *Worker, row *job.Row) []string {
	env := child.BaseEnv(w.cfg.Children.Env)
	for _, line := range c.Env {
		if strings.Contains(line, "=") {
			env = append(env, line)
		} else if v, ok := os.LookupEnv(line); ok {
			env = append(env, line+"="+v)
		}
	}
	env = append(env, "WEIR_JOB_ID="+row.ID.String(), "WEIR_JOB_KIND="+row.Kind, "WEIR_JOB_QUEUE="+row.Queue,
		"WEIR_JOB_PRIORITY="+strconv.Itoa(row.Priority), "WEIR_JOB_ATTEMPT="+strconv.Itoa(row.Attempt),
		"WEIR_JOB_MAX_ATTEMPTS="+strconv.Itoa(row.MaxAttempts), "WEIR_JOB_FENCE="+strconv.Itoa(row.Fence))
	if at, ok := ctx.Deadline(); ok {
		env = append(env, "WEIR_JOB_TIMEOUT_MS="+strconv.FormatInt(max(time.Until(at).Milliseconds(), 1), 10))
	}
	if traceparent.MatchString(row.Trace) {
		env = append(env, "WEIR_JOB_TRACEPARENT="+row.Trace)
	}
	return env
}
