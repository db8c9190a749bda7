package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func TestACancelFromOutsideEndsTheContext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode  testenv.RedisMode
		renew time.Duration
		limit time.Duration
	}{
		{testenv.RedisReal, 5 * time.Second, time.Second}, // long before the next renewal
		{testenv.RedisMini, 5 * time.Second, time.Second},
		{testenv.RedisNone, 300 * time.Millisecond, 900 * time.Millisecond},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			t.Parallel()
			r := setup(t, c.mode)
			g := newGate()
			u := r.start(g.handle, func(cfg *worker.Config) { cfg.Lease, cfg.Renew = 15*time.Second, c.renew })
			id := r.add(task{})
			receive(t, g.started, "start")
			if c.mode != testenv.RedisNone {
				r.await("a subscription", func() bool { return r.Bus().Stats().Subscribed == 1 })
			}
			begun := time.Now()
			if err := r.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			row := r.reaches(id, job.Cancelled)
			if took := time.Since(begun); took > c.limit {
				t.Errorf("it ended after %v", took)
			}
			if len(row.Attempts) != 1 || row.Attempts[0].Outcome != "cancelled" {
				t.Errorf("attempts %+v", row.Attempts)
			}
			r.await("it is counted", func() bool { return u.Stats().Cancelled == 1 })
		})
	}
}

func TestOneMessageCancelsManyRunningJobs(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	g := newGate()
	const jobs = 20 // more than a message a job is sent for
	r.start(g.handle, func(c *worker.Config) {
		c.Queues[0].Slots, c.Lease, c.Renew = jobs, 15*time.Second, 5*time.Second
	})
	r.await("a subscription", func() bool { return r.Bus().Stats().Subscribed == 1 })
	var ids []job.ID
	for range jobs {
		ids = append(ids, r.add(task{}))
		receive(t, g.started, "start")
	}
	begun := time.Now()
	if err := r.Cancel(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		r.reaches(id, job.Cancelled)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("they ended after %v", took)
	}
}

func TestACancelledJobEndsAsItsHandlerSays(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	returns := map[string]error{
		"completes": nil, "snoozes": job.Snooze(time.Hour), "retries": job.RetryIn(time.Hour, errors.New("later")),
		"fails": errors.New("torn away"), "discards": job.Discard(errors.New("no")),
	}
	started := make(chan bool, len(returns))
	r.start(func(ctx context.Context, j *worker.Job[task]) error {
		started <- true
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), job.ErrCancelled) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		return returns[j.Args.Note]
	})
	ids := map[string]job.ID{}
	for note := range returns {
		ids[note] = r.add(task{Note: note})
		receive(t, started, "start")
	}
	for _, id := range ids {
		if err := r.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	for note, want := range map[string]job.State{
		"completes": job.Completed, "snoozes": job.Cancelled, "retries": job.Cancelled, "fails": job.Cancelled, "discards": job.Discarded,
	} {
		r.reaches(ids[note], want)
	}
}

func TestAPausedQueueOrKindStartsNothingAndResumesPromptly(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		for name, target := range map[string]client.Target{"queue": client.Queue("default"), "kind": client.Kind("task")} {
			g := newGate()
			u := r.start(g.handle, func(c *worker.Config) { c.Poll = 20 * time.Second })
			running := r.add(task{})
			receive(t, g.started, "start")
			if err := r.Pause(t.Context(), target); err != nil {
				t.Fatal(err)
			}
			paused := time.Now()
			claims := u.Stats().Claims
			waiting := r.add(task{})
			r.await("a claim", func() bool { return u.Stats().Claims > claims })
			close(g.free)
			r.reaches(running, job.Completed) // what runs goes on
			if row := r.reaches(waiting, job.Available); row.Attempt != 0 {
				t.Errorf("%s: it was started: %+v", name, row)
			}
			r.await("a renewal", func() bool { return u.Stats().RenewedAt.After(paused) }) // a shorter pause may cost a poll
			begun := time.Now()
			if err := r.Resume(t.Context(), target); err != nil {
				t.Fatal(err)
			}
			r.reaches(waiting, job.Completed)
			if took := time.Since(begun); took > 5*time.Second { // long before a poll
				t.Errorf("%s: it resumed after %v", name, took)
			}
			if err := u.close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAPauseGivesBackWhatWasClaimedAhead(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots = 2 })
	g := newGate()
	worker.Handle(w, func(ctx context.Context, j *worker.Job[task]) error {
		if j.Args.Note == "quick" {
			return nil
		}
		return g.handle(ctx, j)
	})
	specs := make([]job.Spec, 1000)
	for i := range specs {
		specs[i].Args = task{Note: "quick"}
		if i >= 300 {
			specs[i].Args = task{Note: "slow"}
		}
	}
	if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	u := r.run(w)
	receive(t, g.started, "start")
	receive(t, g.started, "start")
	if err := r.Pause(t.Context(), client.Queue("default")); err != nil {
		t.Fatal(err)
	}
	r.await("only the running ones are held", func() bool { return u.Stats().Held == 2 && u.Stats().Running == 2 })
	if n := r.count("SELECT count(*) FROM %s.live WHERE state = 0 AND attempt <> 0"); n != 0 {
		t.Errorf("%d attempts were counted", n)
	}
}
