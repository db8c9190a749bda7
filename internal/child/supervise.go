//go:build unix

package child

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// supervisor is the state of a supervisor process.
type supervisor struct {
	link *link
	born chan struct{} // a child was started: there is something to reap

	mu   sync.Mutex
	kids map[int]*kid // by pid
	seqs map[int64]*kid
}

// kid is a child that was not reaped.
type kid struct {
	seq      int64
	pid      int
	maxRSS   int64
	exceeded int64
}

// supervise is the whole main of a supervisor process: it returns when the worker is gone and nothing is left.
func supervise(socket *os.File) error {
	runtime.LockOSThread() // for good: the kernel kills tied children when the thread that forked them ends
	closeOnExec()
	becomeSubreaper()
	// A service manager that signals the whole group must not take the supervisor from under the jobs: its end is the
	// worker's. Not Ignore: that would be inherited by what is started.
	swallowed := make(chan os.Signal, 1)
	signal.Notify(swallowed, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	l, err := newLink(socket)
	if err != nil {
		return err
	}
	s := &supervisor{link: l, born: make(chan struct{}, 1), kids: make(map[int]*kid), seqs: make(map[int64]*kid)}
	go s.reap()   // ends with the process
	go s.sample() // likewise
	for {
		var r request
		files, err := l.receive(&r)
		if err != nil {
			break // the worker is gone
		}
		s.obey(&r, files)
	}
	s.killAll()
	return nil
}

func (s *supervisor) obey(r *request, files []*os.File) {
	defer func() {
		for _, f := range files {
			_ = f.Close() // the child has its copy
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Signal != 0 {
		if k := s.seqs[r.Seq]; k != nil {
			_ = syscall.Kill(-k.pid, syscall.Signal(r.Signal)) // not reaped yet, so the id is its
		}
		return
	}
	answer := reply{Seq: r.Seq}
	// The lock is held until the child is noted: one that ends at once must not be taken for an orphan.
	pid, err := fork(r, files)
	if err != nil {
		answer.Errno = int(syscall.EIO)
		var errno syscall.Errno
		if errors.As(err, &errno) {
			answer.Errno = int(errno)
		}
	} else {
		answer.Pid = pid
		k := &kid{seq: r.Seq, pid: pid, maxRSS: r.MaxRSS}
		s.kids[pid], s.seqs[r.Seq] = k, k
	}
	_ = s.link.send(&answer) // a worker that is gone is noticed by the next receive
	select {
	case s.born <- struct{}{}:
	default:
	}
}

func fork(r *request, files []*os.File) (pid int, err error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	env := append(r.Env, Cookie+"="+strconv.FormatInt(r.Seq, 10))
	path := r.Path
	if path == "" {
		path = selfPath()
	}
	pid, err = syscall.ForkExec(path, r.Args, &syscall.ProcAttr{Dir: r.Dir, Env: env, Files: fds, Sys: attributes(r.Tied)})
	if err == nil {
		preferAsVictim(pid)
	}
	return pid, err
}

// reap takes in whatever ends, our children and the orphans that came to us.
func (s *supervisor) reap() {
	for {
		pid, err := awaitAny()
		if errors.Is(err, syscall.ECHILD) {
			<-s.born
			continue
		}
		if err != nil {
			continue
		}
		s.mu.Lock()
		k := s.kids[pid]
		if k != nil {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // before it is reaped: until then the id is its
		}
		status, ok := collect(pid)
		if k != nil && ok {
			delete(s.kids, pid)
			delete(s.seqs, k.seq)
		}
		s.mu.Unlock()
		if k != nil && ok {
			s.report(k, status)
		}
		s.killOrphans()
	}
}

func (s *supervisor) report(k *kid, status syscall.WaitStatus) {
	r := reply{Seq: k.seq, Ended: true, Exceeded: k.exceeded}
	if status.Signaled() {
		r.Signal = int(status.Signal())
	} else {
		r.Code = status.ExitStatus()
	}
	_ = s.link.send(&r) // a worker that is gone is noticed by receive
}

// killAll ends every child and every orphan, and returns when none is left, at the latest after a few seconds: one that
// hangs in the kernel ends with its hardware.
func (s *supervisor) killAll() {
	over := time.After(5 * time.Second)
	for tick := time.Tick(2 * time.Millisecond); ; {
		s.mu.Lock()
		left := len(s.kids)
		for pid := range s.kids {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
		s.mu.Unlock()
		if s.killOrphans() == 0 && left == 0 {
			return
		}
		select {
		case <-tick:
		case <-over:
			return
		}
	}
}

// closeOnExec keeps what was inherited by us from being inherited further: children get what they were sent, nothing else.
func closeOnExec() {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }() // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
