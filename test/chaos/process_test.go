//go:build unix

package chaos_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
)

// process is a worker, sweeper or producer that runs.
type process struct {
	t    *testing.T
	rig  *rig
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// start starts a process and returns at once. What s leaves open is filled in from the rig.
func (r *rig) start(s spec, env ...string) *process {
	r.t.Helper()
	s = r.filled(s)
	p, err := r.spawn(s, env)
	if err != nil {
		r.t.Fatalf("start %s: %v", s.Name, err)
	}
	r.t.Cleanup(p.end)
	return p
}

// filled returns s with what it leaves open from the rig.
func (r *rig) filled(s spec) spec {
	if s.Postgres == "" {
		s.Postgres = r.url
	}
	if s.Redis == "" {
		s.Redis = r.redisURL
	}
	if s.Lease == 0 {
		s.Lease = lease()
	}
	if s.Queues == nil {
		s.Queues = map[string]int{"default": 10}
	}
	s.Namespace, s.Dir, s.Pooler = r.namespace, r.dir, r.pooler
	return s
}

func (r *rig) spawn(s spec, env []string) (*process, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(r.dir, s.Name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{t: r.t, rig: r, name: s.Name, cmd: exec.Command(self), log: log.Name(), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), env...), specVariable+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Dir = r.dir
	if r.adapt != nil {
		r.adapt(p.cmd)
	}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	start := p.cmd.Start
	if s.Shift != 0 {
		start = func() error { return startShifted(p.cmd, s.Shift) }
	}
	if err := start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is read from ProcessState
		_ = stdin.Close()
		close(p.done)
	}()
	return p, nil
}

func (r *rig) worker(name string, more ...func(*spec)) *process {
	r.t.Helper()
	s := spec{Role: "worker", Name: name}
	for _, f := range more {
		f(&s)
	}
	p := r.start(s)
	p.awaitSession()
	return p
}

// sweeper starts one and, unless the database is away, waits until it trusts itself: recovery is prompt from then on.
func (r *rig) sweeper(name string, more ...func(*spec)) *process {
	r.t.Helper()
	s := spec{Role: "sweeper", Name: name}
	for _, f := range more {
		f(&s)
	}
	p := r.start(s)
	p.awaitTrust()
	return p
}

// awaitTrust waits until a sweeper trusts itself.
func (p *process) awaitTrust() {
	p.t.Helper()
	testenv.Eventually(p.t, lease()+20*time.Second, func() bool { return p.logged("sweeper trusts itself") > 0 },
		"%s does not trust itself", p.name)
}

func slots(n int) func(*spec) { return func(s *spec) { s.Queues = map[string]int{"default": n} } }

func serving(queue string, n int) func(*spec) {
	return func(s *spec) { s.Queues = map[string]int{queue: n} }
}

// awaitSession waits until the process is registered in the database.
func (p *process) awaitSession() {
	p.t.Helper()
	testenv.Eventually(p.t, 30*time.Second, func() bool { return p.rig.sessionOf(p.name) != "" }, "%s has no session", p.name)
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", p.name, err)
	}
}

// kill ends the process with SIGKILL and returns when it is gone.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.done
}

// wait returns the exit code, -1 after a signal.
func (p *process) wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("%s has not ended after %v", p.name, within)
		return -1
	}
}

// stop ends the process in order and checks that it was one.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(40 * time.Second); code != exitClean {
		p.t.Errorf("%s ended with code %d", p.name, code)
	}
}

func (p *process) isRunning() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end is the clean-up: whatever the test left running goes, and its log is shown if the test has failed.
func (p *process) end() {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("kill %s: %v", p.name, err)
	}
	<-p.done
	if text := p.text(); p.t.Failed() && text != "" {
		const most = 6000
		if len(text) > most {
			text = text[:most/3] + "\n…\n" + text[len(text)-most*2/3:]
		}
		p.t.Logf("log of %s (%d):\n%s", p.name, p.cmd.Process.Pid, text)
	}
}

func (p *process) text() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// logged returns how many lines of the process' log hold text.
func (p *process) logged(text string) int { return strings.Count(p.text(), text) }

// logs returns the text of all logs of the rig.
func (r *rig) logs() string {
	names, err := filepath.Glob(filepath.Join(r.dir, "*.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	var all bytes.Buffer
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			r.t.Fatal(err)
		}
		fmt.Fprintf(&all, "== %s\n", filepath.Base(name))
		_, _ = io.Copy(&all, f)
		_ = f.Close()
	}
	return all.String()
}
