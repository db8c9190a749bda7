package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// by is the key of a value that middleware hands on.
type by struct{}

func TestMiddlewareWrapsFromTheWorkersToTheHandlers(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	var order log
	named := func(name string) worker.Middleware {
		return func(ctx context.Context, row *job.Row, next func(context.Context) error) error {
			order.add("%s in", name)
			row.Payload = []byte(`{"note":"` + name + `"}`) // as one that decrypts
			row.Fence, row.ID = 0, job.ID{}                 // and one that should not
			err := next(context.WithValue(ctx, by{}, name))
			order.add("%s out: %v", name, err)
			return err
		}
	}
	w := r.worker(func(c *worker.Config) { c.Middleware = []worker.Middleware{named("first"), named("second")} })
	worker.Handle(w, func(ctx context.Context, j *worker.Job[task]) error {
		order.add("handler, %s, %s", ctx.Value(by{}), j.Args.Note)
		panic("boom")
	}, worker.HandlerOptions{Middleware: []worker.Middleware{named("third")}})
	r.run(w)
	r.reaches(r.add(task{Note: "none"}, job.Options{MaxAttempts: 1}), job.Discarded)
	want := []string{
		"first in", "second in", "third in", "handler, third, third",
		"third out: panic: boom", "second out: panic: boom", "first out: panic: boom",
	}
	if got := order.all(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestAMiddlewareThatBreaksFailsTheAttempt(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	breaks := func(_ context.Context, row *job.Row, next func(context.Context) error) error {
		switch row.Kind {
		case "other":
			runtime.Goexit()
		case "task":
			panic("in the middle")
		}
		return nil
	}
	w := r.worker(func(c *worker.Config) { c.Middleware = []worker.Middleware{breaks} })
	worker.Handle(w, func(context.Context, *worker.Job[task]) error { t.Error("the handler ran"); return nil })
	worker.Handle(w, func(context.Context, *worker.Job[other]) error { t.Error("the handler ran"); return nil })
	r.run(w)
	once := job.Options{MaxAttempts: 1}
	for id, want := range map[job.ID]string{r.add(task{}, once): "in the middle", r.add(other{}, once): "Goexit"} {
		if row := r.reaches(id, job.Discarded); !strings.Contains(row.Error, want) {
			t.Errorf("error %q, want %s", row.Error, want)
		}
	}
}

// told is what a hook heard about one attempt.
type told struct {
	note string
	err  error
	next worker.Next
}

type hooks struct {
	mu       sync.Mutex
	failed   []told
	finished []told
}

func (h *hooks) install(c *worker.Config) {
	c.OnError = func(_ context.Context, row job.Row, err error, next worker.Next) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.failed = append(h.failed, told{string(row.Payload), err, next})
	}
	c.OnFinish = func(_ context.Context, row job.Row, err error, next worker.Next) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.finished = append(h.finished, told{string(row.Payload), err, next})
	}
}

func (h *hooks) counts() (failed, finished int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.failed), len(h.finished)
}

// wasTold waits until the hooks have heard of so many, which is after the row and the counts show it, and of no more.
func (h *hooks) wasTold(t *testing.T, failed, finished int) {
	t.Helper()
	testenv.Eventually(t, soon, func() bool {
		e, f := h.counts()
		return e >= failed && f >= finished
	}, "the hooks were not told")
	if e, f := h.counts(); e != failed || f != finished {
		t.Errorf("%d failures and %d ends were told, want %d and %d", e, f, failed, finished)
	}
}

func TestEveryAttemptIsToldToTheHooksOnce(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	var h hooks
	const jobs = 300
	r.start(func(_ context.Context, j *worker.Job[task]) error {
		if j.Args.N%3 == 0 {
			return errors.New("no")
		}
		return nil
	}, func(c *worker.Config) { h.install(c); c.Queues[0].Slots = 20 })
	specs := make([]job.Spec, jobs)
	for i := range specs {
		specs[i] = job.Spec{Args: task{N: i}, Options: job.Options{MaxAttempts: 2, Backoff: job.Fixed(time.Millisecond)}}
	}
	if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	r.await("all jobs ended", func() bool { return r.count("SELECT count(*) FROM %s.live") == 0 })
	h.wasTold(t, 200, 400)
	for _, f := range h.finished {
		if (f.err == nil) != (f.next.State == job.Completed) || f.next.WillRetry != (f.next.State == job.Retrying) {
			t.Errorf("told %+v", f)
		}
	}
}

func TestAHookThatBreaksLosesNothing(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	var calls atomic.Int32
	breaks := func(_ context.Context, row job.Row, _ error, _ worker.Next) {
		calls.Add(1)
		if row.Attempt == 1 {
			panic("in a hook")
		}
		runtime.Goexit()
	}
	r.start(func(_ context.Context, j *worker.Job[task]) error {
		if j.Args.Note == "fails" {
			return errors.New("no")
		}
		return nil
	}, func(c *worker.Config) { c.OnError, c.OnFinish, c.Queues[0].Slots = breaks, breaks, 1 })
	id := r.add(task{Note: "fails"}, job.Options{MaxAttempts: 2, Backoff: job.Fixed(time.Millisecond)})
	r.reaches(id, job.Discarded)
	r.reaches(r.add(task{}), job.Completed)
	if n := calls.Load(); n != 4 { // two, one that ended the goroutine before the other hook, one
		t.Errorf("%d calls of hooks", n)
	}
}

func TestAStreamOfEventsTellsWhatHappensAndCountsWhatItLoses(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker()
	worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error {
		if j.Attempt == 1 {
			return job.RetryIn(time.Millisecond, errors.New("once more"))
		}
		return nil
	})
	stream, stop := w.Events(100)
	narrow, stopNarrow := w.Events(0)
	defer stopNarrow()
	r.run(w)
	id := r.add(task{})
	want := []worker.EventType{worker.EventClaimed, worker.EventRetried, worker.EventClaimed, worker.EventCompleted}
	for i, want := range want {
		ev := receive(t, stream, "event")
		if ev.Type != want || ev.Row.ID != id || ev.At.IsZero() {
			t.Errorf("event %d: %+v, want %s", i, ev, want)
		}
		if ev.Type == worker.EventRetried && (!ev.Next.WillRetry || ev.Next.Delay != time.Millisecond || ev.Err == nil) {
			t.Errorf("next %+v, error %v", ev.Next, ev.Err)
		}
	}
	// One event goes to the streams one after the other: the narrow one may hear of the last a little later.
	r.await("three events are lost", func() bool { return w.Stats().LostEvents == 3 })
	if ev := receive(t, narrow, "event"); ev.Type != worker.EventClaimed {
		t.Errorf("first event %s", ev.Type)
	}
	stop()
	stop() // once more does no harm
	if _, open := <-stream; open {
		t.Error("the stream is open after its end")
	}
}

func TestTheLoggerOfAHandlerNamesTheJob(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	var out bytes.Buffer
	var mu sync.Mutex
	r.start(func(ctx context.Context, _ *worker.Job[task]) error {
		mu.Lock()
		defer mu.Unlock()
		worker.Logger(ctx).Info("hello")
		return nil
	}, func(c *worker.Config) { c.Logger = slog.New(slog.NewTextHandler(&out, nil)) })
	id := r.add(task{})
	r.reaches(id, job.Completed)
	mu.Lock()
	defer mu.Unlock()
	if got := out.String(); !strings.Contains(got, "msg=hello job="+id.String()+" kind=task attempt=1") {
		t.Errorf("logged %q", got)
	}
	if worker.Logger(t.Context()) != slog.Default() {
		t.Error("another logger outside of a handler")
	}
}
