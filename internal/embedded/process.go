package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errPortTaken reports that another process got the port between our look and the server's bind.
var errPortTaken = errors.New("port is taken")

// command says what to run.
type command struct {
	path string
	args []string
	dir  string    // working directory; on Linux also the mark by which the server's processes are found
	as   *account  // nil is ourselves
	log  *os.File  // stdout and stderr go here; it must be readable
	copy io.Writer // gets the same output; may be nil
}

// process is a running server: a leader, and for Postgres its children in sessions of their own.
type process struct {
	cmd    *exec.Cmd
	dir    string // its working directory
	exe    string // its binary, without symbolic links
	log    *os.File
	offset int64 // where this run's output starts in log
	done   chan struct{}
	exit   error // set before done is closed
}

// launch starts c behind the gate and tells guard. The process is reaped by a goroutine that ends with it.
func launch(c command, guard *watchdog) (*process, error) {
	offset, err := c.log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.log.Name(), err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make gate: %w", err)
	}
	defer w.Close()
	defer r.Close()

	cmd := exec.Command(shell, append([]string{"-c", gateScript, shell, c.path}, c.args...)...)
	cmd.Stdin, cmd.Dir, cmd.Env = r, c.dir, serverEnv(c.dir)
	cmd.SysProcAttr = detached(c.as)
	copied, err := output(cmd, c)
	if err != nil {
		return nil, err
	}
	err = cmd.Start()
	copied.started()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.path, err)
	}
	p := &process{cmd: cmd, dir: c.dir, exe: resolved(c.path), log: c.log, offset: offset, done: make(chan struct{})}
	err = guard.watch(cmd.Process.Pid)
	if err == nil {
		_, err = w.WriteString("go\n")
	}
	go p.reap(guard, copied)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.path, err), p.kill())
	}
	return p, nil
}

// resolved follows symbolic links, as the kernel does when it names a process' binary.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// reap waits for the leader. The watchdog forgets the id at once, since from here on it may be given to another.
func (p *process) reap(guard *watchdog, copied *outputCopy) {
	p.exit = p.cmd.Wait()
	_ = guard.watch(0) // it fails only when the watchdog is dead, and then nothing is watched
	copied.wait()
	close(p.done)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// output returns what this run wrote, at most its last 16 KiB.
func (p *process) output() string {
	info, err := p.log.Stat()
	if err != nil {
		return ""
	}
	from := max(p.offset, info.Size()-16<<10)
	text, err := io.ReadAll(io.NewSectionReader(p.log, from, info.Size()-from))
	if err != nil {
		return ""
	}
	return string(text)
}

// failure describes why the process ended, with errPortTaken in its chain when that is the reason.
func (p *process) failure(what string) error {
	text := p.output()
	err := p.exit
	if err == nil {
		err = errors.New("it ended by itself")
	}
	if strings.Contains(text, "Address already in use") {
		err = errPortTaken
	}
	if last := lastLines(text, 4); last != "" {
		return fmt.Errorf("%s: %w: %s", what, err, last)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// await calls probe every 20 ms until it returns nil, the process ends, or ctx does.
func (p *process) await(ctx context.Context, what string, probe func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := probe(one)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.failure(what)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (last: %w)", what, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// finish waits for the process to end by itself and kills it when ctx ends first.
func (p *process) finish(ctx context.Context, what string) error {
	select {
	case <-p.done:
		if p.exit != nil {
			return p.failure(what)
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s: %w", what, context.Cause(ctx)), p.kill())
	}
}

// outputCopy carries a server's output to its log file and to a writer of the caller's.
type outputCopy struct {
	r, w *os.File
	to   io.Writer
	done chan struct{}
}

// output sets the command's stdout and stderr. Without a writer they are the file itself, and nothing is to be copied.
func output(cmd *exec.Cmd, c command) (*outputCopy, error) {
	if c.copy == nil {
		cmd.Stdout, cmd.Stderr = c.log, c.log
		return nil, nil
	}
	// A pipe of our own, since exec's would keep Wait from returning until the last backend has closed it.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make log pipe: %w", err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	return &outputCopy{r: r, w: w, to: io.MultiWriter(c.log, c.copy), done: make(chan struct{})}, nil
}

// started begins to copy; it ends when the server's last process has closed its end, so at once if none was started.
func (o *outputCopy) started() {
	if o == nil {
		return
	}
	o.w.Close()
	go func() {
		defer close(o.done)
		_, _ = io.Copy(o.to, o.r) // a writer that fails loses the log, never the server: both ignore SIGPIPE
		o.r.Close()
	}()
}

// wait returns when everything is copied, or after a second: orphaned backends may hold the pipe a little longer.
func (o *outputCopy) wait() {
	if o == nil {
		return
	}
	select {
	case <-o.done:
	case <-time.After(time.Second):
	}
}
