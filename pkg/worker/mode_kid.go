package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/weirq/weir/internal/child"
	"github.com/weirq/weir/pkg/job"
)

const (
	// kidReadyWithin is how long a child may take to register its handlers.
	kidReadyWithin = 30 * time.Second
	// killAfter is how long a child has after the end of its job's context: SIGTERM then, SIGKILL after it.
	killAfter = 500 * time.Millisecond
	// killAfterCancel is the same where nobody waits for its slot: it was cancelled, or the worker is closing.
	killAfterCancel = 3 * time.Second
	// quitWithin is how long a child may take to end when it is told that no more jobs come.
	quitWithin = 500 * time.Millisecond
)

// kid is a child process of our own program.
type kid struct {
	mode   job.Mode
	proc   *child.Process
	conn   *child.Conn
	frames chan child.Frame // closed when the child's end is
	stdout *child.Output
	stderr *child.Output
	born   time.Time
	jobs   int
	rss    int64
	left   bool        // its last job left processes behind
	aged   *time.Timer // while it is idle: ends it
}

// errNotBegun reports a child that was gone before it took its job.
var errNotBegun = errors.New("the child was gone before it took the job")

// startKid starts a child and waits until it has registered its handlers.
func (w *Worker) startKid(ctx context.Context, mode job.Mode, kind string) (*kid, error) {
	title := "weir: child"
	if mode == job.Spawned {
		title = "weir: " + kind
	}
	k := &kid{mode: mode, born: time.Now(), frames: make(chan child.Frame, 4)}
	conn, control, err := child.Pair()
	if err != nil {
		return nil, err
	}
	files, closeAll, err := k.pipes(w.cfg.Children.Output)
	if err != nil {
		conn.Close()
		_ = control.Close() // unused
		return nil, err
	}
	spec := child.Spec{
		Args: append([]string{title}, os.Args[1:]...), Env: child.ChildEnv(child.BaseEnv(w.cfg.Children.Env)),
		Files: append(files, control), MaxRSS: max(w.cfg.Children.MaxRSS, 0),
	}
	k.conn = conn
	k.proc, err = w.children.launcher.Start(ctx, spec)
	closeAll()
	_ = control.Close() // the child has its copy
	go k.receive()
	if err == nil {
		err = k.greet(ctx, hello{Settings: w.cfg.Children.Settings, Once: mode == job.Spawned})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return k, nil
}

// pipes makes what becomes the child's standard streams.
func (k *kid) pipes(sink io.Writer) (files []*os.File, closeAll func(), err error) {
	closeAll = func() {
		for _, f := range files {
			_ = f.Close() // the child has its copy
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	files = append(files, null)
	for _, out := range []**child.Output{&k.stdout, &k.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		files = append(files, w)
		*out = child.NewOutput(r, sink)
	}
	return files, closeAll, nil
}

// receive reads the child's frames until its end.
func (k *kid) receive() {
	defer close(k.frames)
	for {
		f, err := k.conn.Receive()
		if err != nil {
			return
		}
		k.frames <- f
	}
}

// greet tells the child what it needs and waits for its answer. A child that does not answer well is killed.
func (k *kid) greet(ctx context.Context, h hello) (err error) {
	defer func() {
		if err != nil {
			k.proc.Kill()
			k.drop()
		}
	}()
	if err := k.conn.Send(frameHello, h, nil); err != nil {
		return k.died()
	}
	timer := time.NewTimer(kidReadyWithin)
	defer timer.Stop()
	select {
	case f, ok := <-k.frames:
		var r ready
		if !ok {
			return k.died()
		}
		if err := f.Decode(&r); err != nil {
			return err
		}
		if f.Kind != frameReady || r.Error != "" {
			return fmt.Errorf("the child cannot begin: %s", r.Error)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("the child is not ready after %v", kidReadyWithin)
	}
}

// drop reads what a child still sends, so that its reader ends.
func (k *kid) drop() {
	go func() {
		for range k.frames {
		}
	}()
}

// died says how a child that has closed its end of the pipe ended, whatever it was at.
func (k *kid) died() error {
	exit := k.awaitExit()
	if exit.Lost {
		return &infraError{err: errors.New("the child " + exit.String())}
	}
	return newChildError(k.mode.String(), exit, k.stderr)
}

// awaitExit ends the child for good and returns how it ended; what it wrote last has been read then.
func (k *kid) awaitExit() child.Exit {
	timer := time.NewTimer(quitWithin)
	defer timer.Stop()
	select {
	case <-k.proc.Done():
	case <-timer.C:
		k.proc.Kill()
		<-k.proc.Done()
	}
	k.stdout.Await(quitWithin / 2)
	k.stderr.Await(quitWithin / 2)
	return k.proc.Exit()
}

// alive reports whether an idle child is still there.
func (k *kid) alive() bool {
	select {
	case <-k.proc.Done():
		return false
	default:
		return true
	}
}

// run gives the child a job and returns what came of it. errNotBegun means that the child never had it. After any error
// but a handler's own the child is gone.
func (k *kid) run(ctx context.Context, t *task, row *job.Row) (result []byte, d *done, err error) {
	k.jobs++
	k.stdout.Reset()
	k.stderr.Reset()
	header, payload := workOf(ctx, row)
	if err := k.conn.Send(frameJob, header, payload); err != nil {
		k.proc.Kill()
		k.drop()
		return nil, nil, errNotBegun
	}
	begun, ended := false, ctx.Done()
	kill := time.NewTimer(time.Hour)
	kill.Stop()
	defer kill.Stop()
	for {
		select {
		case f, ok := <-k.frames:
			if !ok && !begun && ctx.Err() == nil {
				k.awaitExit()
				return nil, nil, errNotBegun
			}
			if !ok {
				return nil, nil, k.died()
			}
			switch f.Kind {
			case frameBegun:
				begun = true
			case frameDone:
				d = new(done)
				if err := f.Decode(d); err != nil || d.ID != row.ID {
					k.proc.Kill()
					k.drop()
					return nil, nil, child.ErrGarbled
				}
				k.rss, k.left = d.RSS, d.Left
				return f.Body, d, d.err()
			default:
				t.heard(&f)
			}
		case <-ended:
			ended = nil
			// In this order: a handler that obeys its context should find it ended when the signal comes.
			_ = k.conn.Send(frameCancel, cancelled{ID: row.ID, Cause: causeName(context.Cause(ctx))}, nil)
			k.proc.Terminate()
			kill.Reset(patience(context.Cause(ctx)))
		case <-kill.C:
			k.proc.Kill() // its frames end with it
		}
	}
}

// patience is how long a child has after its context ended.
func patience(cause error) time.Duration {
	if errors.Is(cause, job.ErrShutdown) || errors.Is(cause, job.ErrCancelled) {
		return killAfterCancel
	}
	return killAfter
}

// quit ends a child that is idle, or whose only job is done.
func (k *kid) quit(wg *sync.WaitGroup) {
	if k.aged != nil {
		k.aged.Stop()
	}
	wg.Go(func() {
		_ = k.conn.Send(frameQuit, nil, nil) // a spawned one may be gone already
		k.awaitExit()
		k.conn.Close()
		for range k.frames {
		}
	})
}
