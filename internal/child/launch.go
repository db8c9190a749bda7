//go:build unix

package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Supported reports whether this system has what child processes need.
const Supported = true

// answerWithin is how long the supervisor may take to start a child. It only forks.
const answerWithin = 20 * time.Second

// Launcher starts children through a supervisor, which it starts when it is first needed and again when it was killed. The
// zero value is ready; it may be used by several goroutines at once.
type Launcher struct {
	mu     sync.Mutex
	closed bool
	link   *link         // nil: no supervisor
	over   chan struct{} // closed when the supervisor is gone and its children with it
	pid    int
	seq    int64
	procs  map[int64]*Process
}

// Process is a child.
type Process struct {
	Pid int

	l       *Launcher
	link    *link
	seq     int64
	started chan error // of the supervisor's first answer
	done    chan struct{}
	exit    Exit
}

// Done is closed when the child has ended and was reaped, and its group with it.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how it ended, after Done.
func (p *Process) Exit() Exit { return p.exit }

// Terminate asks the child's whole group to end, with SIGTERM.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// Kill ends the child's whole group, with SIGKILL.
func (p *Process) Kill() { p.signal(syscall.SIGKILL) }

func (p *Process) signal(s syscall.Signal) {
	_ = p.link.send(&request{Seq: p.seq, Signal: int(s)}) // without a supervisor it was killed already
}

// Start starts a child. The error is a *StartError: nothing was started.
func (l *Launcher) Start(ctx context.Context, spec Spec) (*Process, error) {
	name := spec.Path
	if name == "" {
		name = "this program"
	}
	p, err := l.ask(&spec)
	if err != nil {
		return nil, &StartError{name, err}
	}
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case err = <-p.started:
		if err != nil {
			return nil, &StartError{name, err}
		}
		return p, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = fmt.Errorf("no answer from the supervisor within %v", answerWithin)
	}
	p.Kill() // should it have been started meanwhile, this comes after it
	return nil, &StartError{name, err}
}

// ask sends the request to the supervisor.
func (l *Launcher) ask(spec *Spec) (*Process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.New("the launcher is closed")
	}
	if l.link == nil {
		if err := l.superviseLocked(); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.Abs(spec.Dir) // the supervisor is elsewhere: it keeps no directory busy
	if err != nil {
		return nil, err
	}
	l.seq++
	p := &Process{l: l, link: l.link, seq: l.seq, started: make(chan error, 1), done: make(chan struct{})}
	r := request{Seq: p.seq, Path: spec.Path, Args: spec.Args, Env: spec.Env, Dir: dir, MaxRSS: spec.MaxRSS, Tied: spec.Tied}
	l.procs[p.seq] = p
	if err := l.link.send(&r, spec.Files...); err != nil {
		delete(l.procs, p.seq)
		return nil, err
	}
	return p, nil
}

// superviseLocked starts a supervisor.
func (l *Launcher) superviseLocked() error {
	ours, theirs, err := socketPair()
	if err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	defer func() { _ = theirs.Close() }() // the supervisor has its copy
	cmd := &exec.Cmd{
		Path: selfPath(), Args: []string{"weir: supervisor of children"}, Env: append(BaseEnv(nil), Marker+"="+roleSupervisor),
		Dir: "/", ExtraFiles: []*os.File{theirs}, Stderr: os.Stderr, SysProcAttr: attributes(false),
	}
	if err := cmd.Start(); err != nil {
		_ = ours.Close() // nobody is at its other end
		return fmt.Errorf("start supervisor: %w", err)
	}
	link, err := newLink(ours)
	if err != nil {
		_ = cmd.Process.Kill() // it sees the end of its socket anyway
		_ = cmd.Wait()
		return fmt.Errorf("start supervisor: %w", err)
	}
	l.link, l.pid, l.procs, l.over = link, cmd.Process.Pid, make(map[int64]*Process), make(chan struct{})
	go l.listen(cmd, link, l.procs, l.over)
	return nil
}

// listen takes in what a supervisor tells, until it is gone.
func (l *Launcher) listen(cmd *exec.Cmd, link *link, procs map[int64]*Process, over chan struct{}) {
	defer close(over)
	for {
		var r reply
		if _, err := link.receive(&r); err != nil {
			break
		}
		l.mu.Lock()
		p := procs[r.Seq]
		if r.Ended || r.Errno != 0 {
			delete(procs, r.Seq)
		}
		l.mu.Unlock()
		switch {
		case p == nil:
		case r.Errno != 0:
			p.started <- syscall.Errno(r.Errno)
		case r.Ended:
			p.exit = Exit{Code: r.Code, Signal: syscall.Signal(r.Signal), Exceeded: r.Exceeded}
			close(p.done)
		default:
			p.Pid = r.Pid
			p.started <- nil
		}
	}
	l.mu.Lock()
	if l.link == link {
		l.link = nil
	}
	l.mu.Unlock()
	_ = link.conn.Close() // it is dead
	_ = cmd.Wait()        // how it ended does not matter: that it did is all there is to know
	for _, p := range procs {
		if p.Pid > 0 {
			_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // nobody else is left to do it
		}
		p.exit = Exit{Lost: true}
		select {
		case p.started <- errors.New("the supervisor of the children was killed"):
		default:
		}
		close(p.done)
	}
}

// Supervisor returns the process id of the supervisor; 0 while there is none.
func (l *Launcher) Supervisor() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link == nil {
		return 0
	}
	return l.pid
}

// Close ends the supervisor, which kills every child first, and waits for it. Nothing can be started any more.
func (l *Launcher) Close() {
	l.mu.Lock()
	l.closed = true
	link, over := l.link, l.over
	l.mu.Unlock()
	if link == nil {
		if over != nil {
			<-over
		}
		return
	}
	_ = link.conn.CloseWrite() // it reads to the end, kills what is left, and closes its own
	<-over
}

// baseNames are the variables that every child gets if they are set: where programs and files are, and how text is shown.
var baseNames = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH", "GOCOVERDIR"}

// BaseEnv returns what a child may see of our environment: variables that say nothing about us, and those that are named. A
// name may end in *. What Weir itself is told by variables is never among them.
func BaseEnv(names []string) (env []string) {
	names = append(slices.Clone(baseNames), names...)
	for _, line := range os.Environ() {
		name, _, _ := strings.Cut(line, "=")
		if name == Marker || name == Cookie {
			continue
		}
		if slices.ContainsFunc(names, func(n string) bool {
			prefix, wild := strings.CutSuffix(n, "*")
			return n == name || wild && strings.HasPrefix(name, prefix)
		}) {
			env = append(env, line)
		}
	}
	return env
}

// Role tells a process what it is. In a supervisor it does not return.
func Role() (isChild bool) {
	role := os.Getenv(Marker)
	_ = os.Unsetenv(Marker) // what this process starts is no child of a worker
	switch role {
	case roleSupervisor:
		code := 0
		if err := supervise(os.NewFile(3, "worker")); err != nil && !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, "weir: supervisor:", err)
			code = 1
		}
		os.Exit(code)
	case roleChild:
		return true
	}
	return false
}

// ChildEnv is env with what makes a process of our own program a child.
func ChildEnv(env []string) []string { return append(slices.Clip(env), Marker+"="+roleChild) }

// ControlFD is the descriptor at which a child of our own program finds its connection to the worker.
const ControlFD = 3

// Attach returns the connection of a child to its worker.
func Attach() (*Conn, error) {
	syscall.CloseOnExec(ControlFD) // its end must not be held open by what the child starts
	return NewConn(os.NewFile(ControlFD, "worker"))
}

// EndGroup kills this process and all of its group. It does not return.
func EndGroup() {
	_ = syscall.Kill(0, syscall.SIGKILL)
	select {}
}

// Pair returns the two ends of a connection between worker and child. The second is for Spec.Files.
func Pair() (ours *Conn, theirs *os.File, err error) {
	a, b, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	if ours, err = NewConn(a); err != nil {
		_ = b.Close() // unused
		return nil, nil, err
	}
	return ours, b, nil
}
