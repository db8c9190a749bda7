package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// starts is a handler that tells when it began.
type starts chan time.Time

func (s starts) handle(context.Context, *worker.Job[task]) error {
	s <- time.Now()
	return nil
}

// settled waits until the worker has made its first claims and sleeps.
func (r *rig) settled(u *running) {
	r.t.Helper()
	r.await("a claim", func() bool { return u.Stats().Claims > 0 && !u.Stats().PolledAt.IsZero() })
	if r.Bus().Enabled() {
		r.await("a subscription", func() bool { return r.Bus().Stats().Subscribed == 1 })
	}
	for last := int64(-1); last != u.Stats().Claims; <-time.After(100 * time.Millisecond) {
		last = u.Stats().Claims
	}
}

func longPoll(c *worker.Config) { c.Poll = time.Minute }

func TestAnEnqueueInThisProcessStartsAtOnce(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		s := make(starts, 1)
		r.settled(r.start(s.handle, longPoll))
		best := time.Hour
		for range 5 { // the machine may be busy with other tests
			r.add(task{})
			best = min(best, time.Since(receive(t, s, "start")))
			begun := time.Now()
			r.add(task{})
			best = min(best, receive(t, s, "start").Sub(begun))
		}
		if best > 50*time.Millisecond {
			t.Errorf("the quickest pickup took %v", best)
		}
	})
}

func TestAnEnqueueInAnotherProcessStartsByTheHint(t *testing.T) {
	t.Parallel()
	for _, mode := range []testenv.RedisMode{testenv.RedisReal} {
		r := setup(t, mode)
		s := make(starts, 1)
		r.settled(r.start(s.handle, longPoll))
		producer := on(t, mode, r.pool, r.namespace)
		for range 5 {
			begun := time.Now()
			producer.add(task{})
			if took := receive(t, s, "start").Sub(begun); took > 2*time.Second {
				t.Errorf("pickup took %v", took)
			}
		}
	}
}

func TestAScheduledJobStartsAtItsTimeWithoutASweeper(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		const delay = 2 * time.Second
		id := r.add(task{}, job.Options{Delay: delay})
		r.start(func(context.Context, *worker.Job[task]) error { return nil }, longPoll) // its first claim sees it
		row := r.reaches(id, job.Completed)
		if wait := row.ClaimedAt.Sub(row.EnqueuedAt); wait < delay || wait > delay+time.Second {
			t.Errorf("one of %v started after %v", delay, wait)
		}
	})
}

// A hint that goes out before its commit: workers look again for two seconds, and a poll finds what comes later.
func TestATransactionThatCommitsLaterThanItsHintIsFound(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		s := make(starts, 2)
		r.settled(r.start(s.handle, longPoll))
		for _, after := range []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond} {
			tx, err := r.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.EnqueueTx(t.Context(), tx, task{}); err != nil {
				t.Fatal(err)
			}
			<-time.After(after)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if took := receive(t, s, "start").Sub(begun); took > after+time.Second {
				t.Errorf("committed after %v, started %v later", after, took)
			}
		}
	})
}

func TestHintsThatComeWithoutEndDoNotPutTheLookingOff(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	r.settled(r.start(func(context.Context, *worker.Job[task]) error { return nil }, longPoll))
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late, err := r.EnqueueTx(t.Context(), tx, task{})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for time.Since(begun) < 1200*time.Millisecond { // hints every few ms, whose jobs are there at once
		other, err := r.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.EnqueueTx(t.Context(), other, task{}); err != nil {
			t.Fatal(err)
		}
		if err := other.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) > 400*time.Millisecond && tx != nil {
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			tx = nil
		}
	}
	row := r.reaches(late.ID, job.Completed)
	if end := begun.Add(1200 * time.Millisecond); row.ClaimedAt.After(end.Add(100 * time.Millisecond)) {
		t.Errorf("it was found %v after the stream of hints had ended", row.ClaimedAt.Sub(end))
	}
}

func TestATransactionThatCommitsVeryLateIsFoundByAPoll(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		s := make(starts, 1)
		r.settled(r.start(s.handle)) // polls every second
		tx, err := r.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.EnqueueTx(t.Context(), tx, task{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if took := receive(t, s, "start").Sub(begun); took > 2500*time.Millisecond { // two polls and their jitter
			t.Errorf("it started %v after the commit", took)
		}
	})
}

func TestAWorkerThatRetriesWithoutASweeperArmsItsOwnTimer(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	s := make(starts, 100)
	w := r.worker(longPoll)
	worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error {
		s <- time.Now()
		if j.Attempt < 4 {
			return job.RetryIn(time.Duration(j.Attempt)*100*time.Millisecond, context.DeadlineExceeded)
		}
		return nil
	})
	r.settled(r.run(w))
	var ids []job.ID
	for range 10 {
		ids = append(ids, r.add(task{}))
	}
	begun := time.Now()
	for _, id := range ids {
		r.reaches(id, job.Completed)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("three retries, 0.6 s in all, took %v", took)
	}
}

func TestAHintWithoutATimeIsOneLookAtEverythingNotTwo(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	u := r.start(make(starts).handle, longPoll)
	r.settled(u)
	before := u.Stats()
	if err := r.Wake(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	r.await("a poll", func() bool { return u.Stats().PolledAt.After(before.PolledAt) })
	if n := u.Stats().Claims - before.Claims; n != 1 {
		t.Errorf("%d claims, want 1", n)
	}
}
