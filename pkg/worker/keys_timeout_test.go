package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// B41: nobody can tell that a handler waits for what waits for it, so its timeout, which every job with a lock has, ends it.
func TestAHolderThatWaitsForAJobOfItsOwnKeyRunsIntoItsTimeout(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		children := make(chan job.ID, 1)
		r.start(func(ctx context.Context, j *worker.Job[task]) error {
			if j.Args.Note != "parent" {
				return nil
			}
			res, err := r.Enqueue(ctx, task{Note: "child"}, keyed(job.Mutex("k")))
			if err != nil {
				return err
			}
			children <- res.ID
			_, err = client.Await[any](ctx, r.Client, res.ID)
			return err
		})
		options := keyed(job.Mutex("k"))
		options.Timeout, options.MaxAttempts = 700*time.Millisecond, 1
		parent := r.add(task{Note: "parent"}, options)
		child := receive(t, children, "child")
		r.reaches(child, job.Blocked)
		row := r.reaches(parent, job.Discarded)
		if len(row.Attempts) != 1 || row.Attempts[0].Outcome != "timed out" || !strings.Contains(row.Error, "timeout") {
			t.Errorf("the parent ended as %+v", row)
		}
		r.reaches(child, job.Completed)
		r.rests()
	})
}

// B103: the attempt is decided a lease after its timeout, and its lock goes to the next; what the handler returns later
// frees nothing of that one's.
func TestAHandlerThatIgnoresItsTimeoutLosesItsKey(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		stuck, second := make(chan struct{}), newGate()
		u := r.start(func(ctx context.Context, j *worker.Job[task]) error {
			switch j.Args.Note {
			case "stuck":
				<-stuck
				return nil
			case "second":
				return second.handle(ctx, j)
			}
			return nil
		}, shortLease)
		options := keyed(job.Mutex("k"))
		options.Timeout, options.MaxAttempts = 100*time.Millisecond, 1
		first := r.add(task{Note: "stuck"}, options)
		r.reaches(first, job.Running)
		next := r.add(task{Note: "second"}, keyed(job.Mutex("k")))
		last := r.add(task{Note: "third"}, keyed(job.Mutex("k")))
		begun := time.Now()
		receive(t, second.started, "start of the second")
		if took := time.Since(begun); took < 2*time.Second {
			t.Errorf("the key was given away %v after it was asked for, before the end of a lease", took)
		}
		if row := r.reaches(first, job.Discarded); row.Attempts[0].Outcome != "timed out" {
			t.Errorf("the first ended as %+v", row)
		}
		close(stuck)
		r.await("the late return was noticed", func() bool { return u.Stats().Late == 1 })
		if row, err := r.Job(t.Context(), last); err != nil || row.State != job.Blocked {
			t.Errorf("the third is %v beside the second, %v", row.State, err)
		}
		close(second.free)
		for _, id := range []job.ID{next, last} {
			r.reaches(id, job.Completed)
		}
		r.rests()
	})
}
