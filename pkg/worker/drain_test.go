package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func TestDrainRunsWhatIsDueAndCountsIt(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		returns := map[string]error{
			"fails": errors.New("no"), "snoozes": job.Snooze(time.Hour), "cancels": job.Cancel(nil), "discards": job.Discard(nil),
		}
		w := r.worker()
		worker.Handle(w, func(ctx context.Context, j *worker.Job[task]) error {
			if j.Args.Note == "has a child" {
				_, err := r.Enqueue(ctx, task{})
				return err
			}
			return returns[j.Args.Note]
		})
		for _, note := range []string{"", "has a child", "fails", "snoozes", "cancels", "discards"} {
			r.add(task{Note: note})
		}
		r.add(task{}, job.Options{Delay: time.Hour})
		got, err := w.Drain(t.Context(), worker.DrainOptions{})
		want := worker.Drained{Completed: 3, Retried: 1, Snoozed: 1, Discarded: 1, Cancelled: 1}
		if err != nil || got != want {
			t.Errorf("drained %+v, %v; want %+v", got, err, want)
		}
		if n := r.count("SELECT count(*) FROM %s.live WHERE state = 0"); n != 3 {
			t.Errorf("%d wait, want the delayed, the snoozed and the failed", n)
		}
		if n := r.count("SELECT count(*) FROM %s.sessions"); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

func TestDrainMakesDelayedJobsDueAlsoThoseThatFailMeanwhile(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker()
	worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error {
		if j.Attempt < 3 {
			return errors.New("once more")
		}
		return nil
	})
	r.add(task{}, job.Options{Delay: time.Hour})
	r.add(other{}, job.Options{Delay: time.Hour}) // not ours
	for range 2 {                                 // a drain leaves the worker as it was
		got, err := w.Drain(t.Context(), worker.DrainOptions{Delayed: true})
		if want := (worker.Drained{Completed: 1, Retried: 2}); err != nil || got != want {
			t.Errorf("drained %+v, %v; want %+v", got, err, want)
		}
		r.add(task{}, job.Options{Delay: time.Hour})
	}
	r.run(w)
	r.reaches(r.add(task{}, job.Options{Backoff: job.Fixed(time.Millisecond)}), job.Completed)
}

func TestDrainAndRunExcludeEachOther(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker()
	g := newGate()
	worker.Handle(w, g.handle)
	r.add(task{})
	done := make(chan error, 1)
	go func() {
		_, err := w.Drain(context.Background(), worker.DrainOptions{})
		done <- err
	}()
	receive(t, g.started, "start")
	if _, err := w.Drain(t.Context(), worker.DrainOptions{}); !errors.Is(err, worker.ErrRunning) {
		t.Errorf("a second drain: %v", err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, worker.ErrRunning) {
		t.Errorf("Run while it drains: %v", err)
	}
	close(g.free)
	if err := receive(t, done, "end of the drain"); err != nil {
		t.Error(err)
	}
	u := r.run(w)
	r.await("a session", func() bool { return u.Stats().Session != "" })
	if _, err := w.Drain(t.Context(), worker.DrainOptions{}); !errors.Is(err, worker.ErrRunning) {
		t.Errorf("a drain while it runs: %v", err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, worker.ErrRunning) {
		t.Errorf("Run while it runs: %v", err)
	}
	if err := u.close(); err != nil {
		t.Error(err)
	}
	if _, err := w.Drain(t.Context(), worker.DrainOptions{}); !errors.Is(err, worker.ErrClosed) {
		t.Errorf("a drain after the end: %v", err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, worker.ErrClosed) {
		t.Errorf("Run after the end: %v", err)
	}
}

func TestADrainWhoseTimeIsOverGivesItsJobsBack(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots = 2 })
	var open atomic.Bool
	causes := make(chan error, 10)
	worker.Handle(w, func(ctx context.Context, _ *worker.Job[task]) error {
		if open.Load() {
			return nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	for range 5 {
		r.add(task{})
	}
	got, err := w.Drain(t.Context(), worker.DrainOptions{Timeout: 2 * time.Second})
	if !errors.Is(err, worker.ErrDrainTimeout) || got != (worker.Drained{}) {
		t.Errorf("drained %+v, %v", got, err)
	}
	if cause := receive(t, causes, "end of a context"); !errors.Is(cause, job.ErrShutdown) {
		t.Errorf("cause %v", cause)
	}
	if n := r.count("SELECT count(*) FROM %s.live WHERE state = 0 AND attempt = 0"); n != 5 {
		t.Errorf("%d of 5 wait with no attempt used", n)
	}
	gone, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if _, err := w.Drain(gone, worker.DrainOptions{}); !errors.Is(err, context.Canceled) || errors.Is(err, worker.ErrDrainTimeout) {
		t.Errorf("a drain whose context was cancelled: %v", err)
	}
	open.Store(true)
	if got, err := w.Drain(t.Context(), worker.DrainOptions{}); err != nil || got.Completed != 5 {
		t.Errorf("the next drain: %+v, %v", got, err)
	}
}

func TestAHandlerThatOutlivesItsDrainKeepsItsSlotAndNothingElse(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots, c.ExitsBy = 2, time.Second })
	release, returned := make(chan struct{}), make(chan struct{})
	worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error {
		if j.Args.Note == "stuck" && j.Fence == 1 {
			defer close(returned)
			<-release
		}
		return nil
	})
	stuck := r.add(task{Note: "stuck"})
	if _, err := w.Drain(t.Context(), worker.DrainOptions{Timeout: 2 * time.Second}); !errors.Is(err, worker.ErrDrainTimeout) {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Running != 1 {
		t.Errorf("stats %+v", s)
	}
	for range 5 {
		r.add(task{})
	}
	u := r.run(w)
	r.await("the others ran in the slot that is left", func() bool { return u.Stats().Completed >= 5 })
	close(release)
	receive(t, returned, "return")
	r.reaches(stuck, job.Completed) // by its second claim
	r.await("all slots are free", func() bool { return u.Stats().Running == 0 && u.Stats().Late == 1 })
}

func TestADrainWithoutHandlersOrDatabaseSaysSo(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker()
	if _, err := w.Drain(t.Context(), worker.DrainOptions{}); err == nil {
		t.Error("a drain without a handler began")
	}
	if err := w.Run(t.Context()); err == nil {
		t.Error("a worker without a handler ran")
	}
	worker.Handle(w, func(context.Context, *worker.Job[task]) error { return nil })
	r.exec("DROP TABLE %s.sessions")
	if _, err := w.Drain(t.Context(), worker.DrainOptions{Timeout: 100 * time.Millisecond}); !errors.Is(err, worker.ErrDrainTimeout) {
		t.Errorf("a drain without its tables: %v", err)
	}
}
