package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func TestAJobThatCompletesLeavesItsResult(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		w := r.worker()
		worker.HandleResult(w, func(_ context.Context, j *worker.Job[task]) (map[string]int, error) {
			return map[string]int{"double": 2 * j.Args.N}, nil
		})
		r.run(w)
		id := r.add(task{N: 21})
		got, err := client.Await[map[string]int](t.Context(), r.Client, id)
		if err != nil || got["double"] != 42 {
			t.Errorf("result %v, %v", got, err)
		}
		row := r.reaches(id, job.Completed)
		if row.Attempt != 1 || len(row.Attempts) != 0 || row.Session.IsZero() || string(row.Payload) != `{"n":21}` {
			t.Errorf("row %+v", row)
		}
	})
}

func TestAFailedAttemptIsRetriedAfterItsBackoff(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		var calls atomic.Int32
		r.start(func(_ context.Context, j *worker.Job[task]) error {
			if calls.Add(1) == 1 {
				return errors.New("not today")
			}
			return nil
		})
		id := r.add(task{}, job.Options{Backoff: job.Fixed(200 * time.Millisecond)})
		row := r.reaches(id, job.Completed)
		if len(row.Attempts) != 1 {
			t.Fatalf("attempts %+v", row.Attempts)
		}
		a := row.Attempts[0]
		if row.Attempt != 2 || a.Outcome != "failed" || a.Error != "not today" || a.Attempt != 1 {
			t.Errorf("row %+v, attempt %+v", row, a)
		}
		if wait := row.ClaimedAt.Sub(a.EndedAt); wait < 180*time.Millisecond || wait > time.Second {
			t.Errorf("the retry came after %v", wait)
		}
	})
}

// What a handler returns, and what becomes of the job at once.
func TestAHandlerDecidesItsJob(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		cause := errors.New("the cause")
		returns := map[string]error{
			"cancel": job.Cancel(cause), "discard": job.Discard(cause), "cancel without a reason": job.Cancel(nil),
			"retry in":     job.RetryIn(time.Hour, cause),
			"snooze":       job.Snooze(time.Hour),
			"retry in -1s": job.RetryIn(-time.Second, cause),
		}
		var events log
		w := r.worker(func(c *worker.Config) {
			c.OnFinish = func(_ context.Context, row job.Row, err error, next worker.Next) {
				events.add("%s %v", next.State, err != nil)
			}
		})
		worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error { return returns[j.Args.Note] })
		r.run(w)
		cases := []struct {
			note    string
			state   job.State
			attempt int
			errText string
			outcome string
			wait    time.Duration
		}{
			{"cancel", job.Cancelled, 1, "the cause", "cancelled", 0},
			{"cancel without a reason", job.Cancelled, 1, "no reason given", "cancelled", 0},
			{"discard", job.Discarded, 1, "the cause", "discarded", 0},
			{"retry in", job.Retrying, 1, "the cause", "failed", time.Hour},
			{"snooze", job.Scheduled, 0, "", "", time.Hour},
			{"retry in -1s", job.Retrying, 1, "the cause", "failed", time.Second},
		}
		for _, c := range cases {
			id := r.add(task{Note: c.note}, job.Options{MaxAttempts: 3})
			row := r.reaches(id, c.state)
			if row.Attempt != c.attempt || row.Error != c.errText {
				t.Errorf("%s: %+v", c.note, row)
			}
			if c.outcome != "" && (len(row.Attempts) != 1 || row.Attempts[0].Outcome != c.outcome) {
				t.Errorf("%s: attempts %+v", c.note, row.Attempts)
			}
			if got := time.Until(row.ReadyAt); c.wait > 0 && (got < c.wait/2 || got > c.wait+time.Minute) {
				t.Errorf("%s: due in %v", c.note, got)
			}
		}
		for _, line := range events.all() {
			if strings.HasSuffix(line, "false") {
				t.Errorf("a hook was told of a completion: %s", line)
			}
		}
	})
}

type nasty struct{}

func (nasty) String() string { panic("not even a name") }

type nastyError struct{ err error }

func (e *nastyError) Error() string { return e.err.Error() }
func (e *nastyError) Unwrap() error { return e.err }

// Every way to leave a handler without returning an error that can be read; the process and the next job survive.
func TestAHandlerThatBreaksFailsItsAttemptAlone(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	breaks := map[string]func() error{
		"panics with text":         func() error { panic("boom") },
		"panics with an error":     func() error { panic(errors.New("boom")) },
		"panics with nil":          func() error { panic(nil) },
		"panics with a Cancel":     func() error { panic(job.Cancel(errors.New("boom"))) },
		"panics in String":         func() error { panic(nasty{}) },
		"calls Goexit":             func() error { runtime.Goexit(); return nil },
		"returns a nil pointer":    func() error { return (*nastyError)(nil) },
		"returns a nil Cancel":     func() error { return (*job.CancelError)(nil) },
		"dereferences nothing":     func() error { var p *task; return errors.New(p.Note) },
		"panics in a defer":        func() error { defer panic("boom"); return nil },
		"calls Goexit in a defer":  func() error { defer runtime.Goexit(); panic("boom") },
		"overwrites a panic":       func() error { defer func() { panic("second") }(); panic("first") },
		"returns unreadable texts": func() error { return errors.New("nul \x00, bad \xff, " + strings.Repeat("long ", 10_000)) },
	}
	r.start(func(_ context.Context, j *worker.Job[task]) error { return breaks[j.Args.Note]() },
		func(c *worker.Config) { c.Queues[0].Slots = 2 })
	ids := make(map[string]job.ID)
	for name := range breaks {
		ids[name] = r.add(task{Note: name}, job.Options{MaxAttempts: 2, Backoff: job.Fixed(time.Hour)})
	}
	for name, id := range ids {
		row := r.until(id, "its first failure", func(row job.Row) bool { return row.State == job.Retrying })
		if len(row.Attempts) != 1 || row.Attempts[0].Outcome != "failed" || row.Attempts[0].Error == "" || row.Attempt != 1 {
			t.Errorf("%s: %+v", name, row)
			continue
		}
		if strings.Contains(name, "panics with") && !strings.Contains(row.Attempts[0].Stack, "outcome_test.go") {
			t.Errorf("%s: stack %q", name, row.Attempts[0].Stack)
		}
	}
}

func TestEightGoexitsLeaveTheirEightSlots(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	u := r.start(func(_ context.Context, j *worker.Job[task]) error {
		if j.Args.N < 8 {
			runtime.Goexit()
		}
		return nil
	}, func(c *worker.Config) { c.Queues[0].Slots = 8 })
	for n := range 8 {
		r.add(task{N: n}, job.Options{MaxAttempts: 1})
	}
	r.reaches(r.add(task{N: 8}), job.Completed)
	r.await("all ended", func() bool { return u.Stats().Discarded == 8 })
	begun := time.Now()
	if err := u.close(); err != nil || time.Since(begun) > time.Second {
		t.Errorf("close: %v after %v", err, time.Since(begun))
	}
}

func TestAResultThatCannotBeStoredDiscardsItsJobAndNoOther(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	var told log
	w := r.worker(func(c *worker.Config) {
		c.Queues[0].Slots = 50
		c.OnError = func(_ context.Context, row job.Row, err error, _ worker.Next) { told.add("%s", row.Payload) }
	})
	worker.HandleResult(w, func(_ context.Context, j *worker.Job[task]) (any, error) {
		switch j.Args.Note {
		case "large":
			return strings.Repeat("x", job.MaxResultBytes), nil
		case "refused":
			return json.RawMessage("\"\xff\""), nil // JSON for Go, not UTF-8 for Postgres
		case "unencodable":
			return func() {}, nil
		}
		return j.Args.N, nil
	})
	var good []job.ID
	specs := make([]job.Spec, 60)
	for i := range specs {
		specs[i].Args = task{N: i}
	}
	bad := map[string]int{"large": 7, "refused": 30, "unencodable": 50}
	for note, i := range bad {
		specs[i].Args = task{Note: note}
	}
	es, err := r.EnqueueMany(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	u := r.run(w)
	for i, e := range es {
		if specs[i].Args.(task).Note == "" {
			good = append(good, e.ID)
		}
	}
	for note, i := range bad {
		row := r.reaches(es[i].ID, job.Discarded)
		if !strings.Contains(row.Error, "result") {
			t.Errorf("%s: %q", note, row.Error)
		}
	}
	for _, id := range good {
		r.reaches(id, job.Completed)
	}
	r.await("all are counted", func() bool { s := u.Stats(); return s.Completed == 57 && s.Discarded == 3 })
	if len(told.all()) != 3 {
		t.Errorf("OnError was told of %q", told.all())
	}
}

func TestAnUndecodablePayloadFailsTheAttempt(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	r.start(func(context.Context, *worker.Job[task]) error { t.Error("the handler ran"); return nil })
	id := r.add(job.Raw{Name: "task", Payload: json.RawMessage(`{"n":"many"}`)}, job.Options{MaxAttempts: 1})
	if row := r.reaches(id, job.Discarded); !strings.Contains(row.Error, "decode payload of task") {
		t.Errorf("error %q", row.Error)
	}
}

func TestAnAliasGoesToTheSameHandler(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker()
	kinds := make(chan string, 2)
	worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error { kinds <- j.Kind; return nil },
		worker.HandlerOptions{Aliases: []string{"former"}})
	r.run(w)
	r.add(job.Raw{Name: "former"})
	r.add(task{})
	got := []string{receive(t, kinds, "start"), receive(t, kinds, "start")}
	slices.Sort(got)
	if fmt.Sprint(got) != "[former task]" {
		t.Errorf("kinds %v", got)
	}
}

func TestWhatAHandlerEnqueuesNamesItsJobAsParent(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	children := make(chan job.ID, 1)
	r.start(func(ctx context.Context, j *worker.Job[task]) error {
		e, err := client.FromContext(ctx).Enqueue(ctx, other{})
		children <- e.ID
		return err
	})
	id := r.add(task{})
	child := receive(t, children, "child")
	row, err := r.Job(t.Context(), child)
	if err != nil || row.ParentID != id {
		t.Errorf("child %+v, %v; want parent %v", row, err, id)
	}
	if client.FromContext(t.Context()) != nil {
		t.Error("there is a client outside of a handler")
	}
}
