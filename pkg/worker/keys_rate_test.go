package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// mostClaimed returns the most jobs that were claimed in any window, of those that have completed, on the database clock.
func (r *rig) mostClaimed(per time.Duration) int {
	r.t.Helper()
	return r.count("SELECT max((SELECT count(*) FROM %[1]s.outcomes AS o WHERE o.claimed_at >= x.claimed_at"+
		" AND o.claimed_at < x.claimed_at + $1 * interval '1 ms')) FROM %[1]s.outcomes AS x", per.Milliseconds())
}

func nothing(context.Context, *worker.Job[task]) error { return nil }

func TestARateIsKeptAndUsed(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		const rate, per, jobs = 20, time.Second, 45
		for n := range jobs {
			r.add(task{N: n}, keyed(job.Rate("api", rate, per)))
		}
		u := r.start(nothing, func(c *worker.Config) { c.Queues[0].Slots = 100 })
		r.rests()
		// Between the instant that a job is given and its claim lie some milliseconds, more on a busy machine.
		if most := r.mostClaimed(per * 6 / 10); most > rate {
			t.Errorf("%d starts in %v, limit %d in %v", most, per*6/10, rate, per)
		}
		r.await("all are counted", func() bool { return u.Stats().Completed == jobs })
		if n := u.Stats().Retried; n != 0 {
			t.Errorf("%d were tried again", n)
		}
	})
}

func TestAThrottledJobIsLookedAtTwiceAndUsesNoAttempt(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		u := r.start(nothing)
		for n := range 2 {
			r.add(task{N: n}, keyed(job.Rate("slow", 1, 700*time.Millisecond)))
		}
		r.await("one is put off", func() bool { return u.Stats().Throttled == 1 })
		id := r.add(task{}, keyed(job.Rate("slow", 1, 700*time.Millisecond))) // and one more
		row := r.reaches(id, job.Completed)
		if row.Attempt != 1 {
			t.Errorf("attempt %d", row.Attempt)
		}
		r.rests()
		if s := u.Stats(); s.Throttled > 4 {
			t.Errorf("three jobs were put off %d times", s.Throttled)
		}
	})
}

func TestARateBackoffMovesTheKeyForAll(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		starts := make(chan job.Row, 10)
		var mu sync.Mutex
		first := true
		u := r.start(func(_ context.Context, j *worker.Job[task]) error {
			mu.Lock()
			defer mu.Unlock()
			starts <- j.Row
			if first {
				first = false
				return job.RateBackoff("api", 1500*time.Millisecond)
			}
			return nil
		})
		key := keyed(job.Rate("api", 1000, time.Second))
		one := r.add(task{N: 1}, key)
		receive(t, starts, "start")
		r.await("it is put off", func() bool { return u.Stats().Snoozed == 1 })
		begun := time.Now()
		other := r.add(task{N: 2}, key)
		free := r.add(task{N: 3}, keyed(job.Rate("else", 1000, time.Second)))
		if row := receive(t, starts, "start of what has another rate"); row.ID != free {
			t.Errorf("%v started", row.ID)
		}
		receive(t, starts, "start after the backoff")
		if took := time.Since(begun); took < time.Second {
			t.Errorf("the next job of that rate started after %v", took)
		}
		for _, id := range []job.ID{one, other} {
			if row := r.reaches(id, job.Completed); row.Attempt != 1 || len(row.Attempts) != 0 {
				t.Errorf("row %+v", row)
			}
		}
	})
}

func TestAQueuesLimitHoldsForAllWorkers(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		if err := r.SetQueueLimit(t.Context(), client.QueueLimit{Name: "default", N: 3}, false); err != nil {
			t.Fatal(err)
		}
		l, g := newLedger(), newGate()
		handle := func(ctx context.Context, j *worker.Job[task]) error {
			defer l.enter(&job.Row{Keys: []job.Key{job.Mutex("queue")}}, j.Args.N)()
			return g.handle(ctx, j)
		}
		for n := range 40 {
			if n%2 == 0 {
				r.add(task{N: n})
			} else {
				r.add(task{N: n}, keyed(job.Limit("k", 10)))
			}
		}
		u, v := r.run(r.handling(handle, longPoll)), r.run(r.handling(handle, longPoll))
		for range 3 {
			receive(t, g.started, "start")
		}
		close(g.free)
		r.rests()
		if most := l.highest("queue"); most != 3 {
			t.Errorf("%d at once, limit 3", most)
		}
		if s := u.Stats().Claims + v.Stats().Claims; s > 200 {
			t.Errorf("%d claims for 40 jobs", s)
		}
	})
}

func TestAQueuesRateHoldsForAllWorkers(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		if err := r.SetQueueLimit(t.Context(), client.QueueLimit{Name: "default", Rate: 10, Per: 400 * time.Millisecond}, false); err != nil {
			t.Fatal(err)
		}
		for n := range 25 {
			r.add(task{N: n})
		}
		u := r.run(r.handling(nothing, func(c *worker.Config) { c.Queues[0].Slots = 50 }))
		r.rests()
		if most := r.mostClaimed(280 * time.Millisecond); most > 10 { // the grant is written a little before the claim
			t.Errorf("%d starts in a window, limit 10", most)
		}
		if s := u.Stats().Claims; s > 150 {
			t.Errorf("%d claims for 25 jobs", s)
		}
	})
}
