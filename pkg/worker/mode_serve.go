package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/weirq/weir/internal/child"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// ServeChild makes a main one that is executed again for child processes: call it before anything else. In a process that
// was started as a child it does what the process is for, and returns its exit code and true; in any other it returns false
// at once. Package run calls it.
//
// build is called in a child, for a worker with all its handlers; settings are Config.Children.Settings of the worker. It
// does what main does up to Run, and no more: no listener, no migration. The child's pool should have at most two
// connections. closeAll is called at the end.
func ServeChild(build func(settings []string) (w *Worker, closeAll func(), err error)) (code int, isChild bool) {
	serves.Store(true)
	if !child.Role() {
		return 0, false
	}
	conn, err := child.Attach()
	if err == nil {
		err = serveChild(conn, build)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "weir: child:", err)
		return 1, true
	}
	return 0, true
}

// server is a child process.
type server struct {
	conn *child.Conn
	once bool
	work chan work

	mu     sync.Mutex
	id     job.ID // of the job under way
	cancel context.CancelCauseFunc
}

func serveChild(conn *child.Conn, build func([]string) (*Worker, func(), error)) error {
	// The worker signals the whole group, and so does who stops a service: what ends a handler here is its context. Not
	// Ignore: what a handler starts would inherit it.
	swallowed := make(chan os.Signal, 1)
	signal.Notify(swallowed, syscall.SIGTERM, os.Interrupt)
	f, err := conn.Receive()
	if err != nil {
		return err
	}
	var h hello
	if err := f.Decode(&h); err != nil {
		return err
	}
	s := &server{conn: conn, once: h.Once, work: make(chan work)}
	go s.receive() // ends with the process
	w, closeAll, err := build(h.Settings)
	if err != nil {
		return conn.Send(frameReady, ready{Error: err.Error()}, nil)
	}
	defer closeSoon(closeAll)
	before := child.Children() // what register has started may stay
	if err := conn.Send(frameReady, ready{}, nil); err != nil {
		return err
	}
	for job := range s.work {
		s.serve(w, job, before)
		if s.once {
			break
		}
	}
	return nil
}

// closeSoon gives a pool a moment to say goodbye to its server. A connection that a handler has kept holds nobody up.
func closeSoon(closeAll func()) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		closeAll()
	}()
	select {
	case <-closed:
	case <-time.After(quitWithin / 2):
	}
}

// receive obeys the worker. The end of its pipe is the end of this process and of all that it started.
func (s *server) receive() {
	for {
		f, err := s.conn.Receive()
		if err != nil {
			child.EndGroup()
		}
		switch f.Kind {
		case frameJob:
			job, err := decodeWork(&f)
			if err != nil {
				child.EndGroup() // not of our program's making
			}
			s.work <- job
		case frameCancel:
			var c cancelled
			if f.Decode(&c) == nil {
				s.stop(&c)
			}
		case frameQuit:
			close(s.work)
			return
		}
	}
}

func (s *server) stop(c *cancelled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil && s.id == c.ID {
		s.cancel(causeOf(c.Cause))
	}
}

// deadlined is a context that tells its deadline and leaves it to the worker to end it: one clock decides.
type deadlined struct {
	context.Context
	at time.Time
}

func (d deadlined) Deadline() (time.Time, bool) { return d.at, true }

// serve runs one job.
func (s *server) serve(w *Worker, job work, before []int) {
	row := job.Row
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.mu.Lock()
	s.id, s.cancel = row.ID, cancel
	s.mu.Unlock()
	if job.Timeout > 0 {
		ctx = deadlined{ctx, time.Now().Add(job.Timeout)}
	}
	if s.conn.Send(frameBegun, nil, nil) != nil {
		return // the worker is gone: so are we in a moment
	}
	child.SetTitle(row.Kind)
	t := &task{worker: w, row: row, session: &session{id: row.Session, ctx: ctx}, ctx: ctx}
	t.say = func(kind byte, header any, body []byte) {
		_ = s.conn.Send(kind, header, body) // a worker that is gone hears nothing, and ends us
	}
	ctx = client.WithJob(context.WithValue(ctx, taskKey{}, t), w.client, row.ID, row.Trace)
	d := done{ID: row.ID}
	result := s.call(ctx, w, t, &d)
	w.reports.end(t)
	d.Finished = t.isFinished()
	d.RSS = child.RSS()
	if !s.once {
		d.Left = slices.ContainsFunc(child.Children(), func(pid int) bool { return !slices.Contains(before, pid) })
	}
	child.SetTitle("weir: idle")
	_ = s.conn.Send(frameDone, d, result) // the worker is gone if it cannot be sent: so are we in a moment
}

// call calls the handler with the middleware around it, in a goroutine of its own: it may leave by runtime.Goexit.
func (s *server) call(ctx context.Context, w *Worker, t *task, d *done) (result []byte) {
	h := w.handlers[t.row.Kind]
	if h == nil {
		d.encodeError(fmt.Errorf("kind %s has no handler in the child: register must not depend on where it is called", t.row.Kind))
		return nil
	}
	t.handler = h
	var err error = &job.PanicError{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		row := t.row
		err = chain(ctx, &row, append(slices.Clip(w.cfg.Middleware), h.middleware...), func(ctx context.Context) (err error) {
			defer recoverInto(&err)
			result, err = h.call(ctx, t, row)
			return err
		})
	}()
	<-ended
	defer func() { // an error whose methods panic
		if r := recover(); r != nil {
			d.encodeError(&job.PanicError{Value: r})
		}
	}()
	d.encodeError(err)
	if d.Outcome != "" {
		return nil
	}
	return result
}
