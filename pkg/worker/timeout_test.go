package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func TestATimeoutEndsTheContextAndTheAttempt(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		returns := map[string]error{"nil": nil, "its own error": errors.New("dial tcp: i/o"), "the context's": context.DeadlineExceeded}
		causes := make(chan error, 3)
		r.start(func(ctx context.Context, j *worker.Job[task]) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return returns[j.Args.Note]
		})
		for note, err := range returns {
			id := r.add(task{Note: note}, job.Options{Timeout: 50 * time.Millisecond, Backoff: job.Fixed(time.Hour)})
			if cause := receive(t, causes, "end of the context"); !errors.Is(cause, job.ErrTimeout) {
				t.Errorf("cause %v", cause)
			}
			a := r.reaches(id, job.Retrying).Attempts
			if len(a) != 1 || a[0].Outcome != "timed out" || !strings.Contains(a[0].Error, "job: timeout") {
				t.Errorf("%s: attempts %+v", note, a)
			}
			if note == "its own error" && !strings.Contains(a[0].Error, err.Error()) {
				t.Errorf("error %q has lost what the handler said", a[0].Error)
			}
		}
	})
}

func TestTheTimeoutIsTheJobsThenTheHandlersThenTheWorkers(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker(func(c *worker.Config) { c.Timeout = 200 * time.Hour })
	left := make(chan time.Duration, 1)
	deadline := func(ctx context.Context) error {
		at, ok := ctx.Deadline()
		if !ok {
			left <- 0
			return nil
		}
		left <- time.Until(at)
		return nil
	}
	worker.Handle(w, func(ctx context.Context, _ *worker.Job[task]) error { return deadline(ctx) },
		worker.HandlerOptions{Timeout: 100 * time.Hour})
	worker.Handle(w, func(ctx context.Context, _ *worker.Job[other]) error { return deadline(ctx) })
	r.run(w)
	for _, c := range []struct {
		name string
		args job.Args
		row  time.Duration
		want time.Duration
	}{
		{"the row's", task{}, 50 * time.Hour, 50 * time.Hour},
		{"the handler's", task{}, 0, 100 * time.Hour},
		{"the worker's", other{}, 0, 200 * time.Hour},
		{"none", task{}, job.NoTimeout, 0},
	} {
		r.add(c.args, job.Options{Timeout: c.row})
		if got := receive(t, left, "start"); got > c.want || got < c.want-time.Minute {
			t.Errorf("%s: %v left, want %v", c.name, got, c.want)
		}
	}
}

func TestAHandlerThatIgnoresItsTimeoutIsGivenUpAfterALease(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots = 1 })
	release, returned := make(chan struct{}), make(chan struct{})
	worker.HandleResult(w, func(_ context.Context, j *worker.Job[task]) (string, error) {
		if j.Attempt > 1 || j.Args.Note != "stuck" {
			return "good", nil
		}
		defer close(returned)
		<-release
		return "late", nil
	})
	stream, stop := w.Events(100)
	defer stop()
	u := r.run(w)
	begun := time.Now()
	const timeout, lease = 100 * time.Millisecond, 3 * time.Second
	id := r.add(task{Note: "stuck"}, job.Options{Timeout: timeout, Backoff: job.Fixed(time.Millisecond)})
	next := r.add(task{})
	r.await("the row shows that it is timing out", func() bool {
		return r.count("SELECT count(*) FROM %s.live WHERE id = $1 AND flags & 8 <> 0", id) == 1
	})
	if took := time.Since(begun); took > time.Second {
		t.Errorf("that took %v", took)
	}
	if row := r.reaches(next, job.Completed); row.ClaimedAt.Sub(begun) < lease {
		t.Errorf("the slot was free after %v", row.ClaimedAt.Sub(begun))
	}
	row := r.reaches(id, job.Completed)
	if string(row.Result) != `"good"` || len(row.Attempts) != 1 || row.Attempts[0].Outcome != "timed out" ||
		!strings.Contains(row.Attempts[0].Error, "ignored its context") {
		t.Errorf("row %+v", row)
	}
	close(release)
	receive(t, returned, "return")
	var types []worker.EventType
	for range 4 {
		types = append(types, receive(t, stream, "event").Type)
	}
	if types[0] != worker.EventClaimed || types[1] != worker.EventTimingOut || types[2] != worker.EventAbandoned {
		t.Errorf("events %v", types)
	}
	r.await("the late return was noticed", func() bool { return u.Stats().Late == 1 })
	if row := r.reaches(id, job.Completed); string(row.Result) != `"good"` {
		t.Errorf("the late return changed the result to %s", row.Result)
	}
	r.await("it is counted, and the slot is free", func() bool {
		s := u.Stats()
		return s.TimingOut == 1 && s.Abandoned == 1 && s.Running == 0
	})
}

func TestATimeoutRunsFromTheStartOfTheHandlerNotFromTheClaim(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots = 2 })
	// One of the kind at a time: of two that are claimed together the second waits, for longer than its timeout.
	worker.Handle(w, func(ctx context.Context, _ *worker.Job[task]) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
			return nil
		}
	}, worker.HandlerOptions{Slots: 1, Timeout: 300 * time.Millisecond})
	es, err := r.EnqueueMany(t.Context(), []job.Spec{{Args: task{}}, {Args: task{}}, {Args: task{}}})
	if err != nil {
		t.Fatal(err)
	}
	r.run(w)
	for _, e := range es {
		if row := r.reaches(e.ID, job.Completed); row.Attempt != 1 {
			t.Errorf("attempt %d", row.Attempt)
		}
	}
}
