//go:build linux || darwin || freebsd

package embedded

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

const supported = true

// killBound is how long SIGKILL may take to show; the kernel needs milliseconds unless a disk hangs.
const killBound = 10 * time.Second

// The signals by which a server is asked to stop, and how long each is given.
type stopStep struct {
	signal syscall.Signal
	bound  time.Duration
}

var (
	// A fast shutdown writes a checkpoint; an immediate one does not, and kills stuck backends after 5 s.
	stopPostgres = []stopStep{{syscall.SIGINT, 10 * time.Second}, {syscall.SIGQUIT, 7 * time.Second}}
	stopOthers   = []stopStep{{syscall.SIGTERM, 3 * time.Second}}
)

// detached gives a child a session of its own, so that neither Ctrl-C nor a closed terminal reaches it.
func detached(as *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if as != nil {
		attr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return attr
}

// alive reports whether the leader has not been reaped.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// send signals the leader; a leader that has ended is no error.
func (p *process) send(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.pid(), err)
	}
	return nil
}

// sendAll signals every process of the server but the leader and returns which there were.
func (p *process) sendAll(s syscall.Signal) []int {
	leader := p.pid()
	if !p.alive() {
		leader = -1 // its id may be another process' by now
	}
	pids := members(leader, p.dir, p.exe)
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended since
	}
	return pids
}

// pause stops the leader first: stopped, it starts no more children.
func (p *process) pause() error {
	if !p.alive() {
		return errors.New("pause: server is not running")
	}
	if err := p.send(syscall.SIGSTOP); err != nil {
		return err
	}
	// A fork that was under way when the signal was sent shows up in a later pass.
	for last := -1; ; {
		n := len(p.sendAll(syscall.SIGSTOP))
		if n == last {
			return nil
		}
		last = n
	}
}

func (p *process) resume() error {
	if !p.alive() {
		return errors.New("resume: server is not running")
	}
	p.sendAll(syscall.SIGCONT)
	return p.send(syscall.SIGCONT)
}

// kill ends all processes of the server with SIGKILL and returns when none is left.
func (p *process) kill() error {
	// Stopped first, they do not react to the leader's death by something tidier. They are remembered, since one that is
	// about to end has no directory any more and would not be found again, but is not gone yet.
	dying := p.sendAll(syscall.SIGSTOP)
	if err := p.send(syscall.SIGKILL); err != nil {
		return err
	}
	deadline := time.NewTimer(killBound)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, pid := range dying {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		dying = slices.DeleteFunc(append(dying, p.sendAll(syscall.SIGKILL)...), ended)
		slices.Sort(dying)
		dying = slices.Compact(dying)
		if len(dying) == 0 && !p.alive() {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("kill process %d: it or a child is there after %s", p.pid(), killBound)
		}
	}
}

// stop tries steps in order, then kills.
func (p *process) stop(steps []stopStep) error {
	if p.alive() {
		_ = p.resume() // a stopped process does not react
	}
	for _, step := range steps {
		if !p.alive() {
			break
		}
		if err := p.send(step.signal); err != nil {
			return err
		}
		select {
		case <-p.done:
		case <-time.After(step.bound):
		}
	}
	return p.kill() // also finds children that outlived the leader
}
