package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func TestAResultWhoseHookHasNotReturnedAtTheCloseIsReported(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	u := r.start(func(context.Context, *worker.Job[task]) error { return nil }, func(c *worker.Config) {
		c.Grace, c.ExitsBy = time.Millisecond, 10*time.Millisecond
		c.OnFinish = func(context.Context, job.Row, error, worker.Next) {
			close(entered)
			<-leave
			close(left)
		}
	})
	r.add(task{})
	receive(t, entered, "call of the hook")
	err := u.close()
	var unflushed *worker.UnflushedError
	if !errors.As(err, &unflushed) || unflushed.N != 1 {
		t.Errorf("Run returned %v, want one unflushed result", err)
	}
	close(leave)
	receive(t, left, "end of the hook")
}

// After FinishTx hooks are called by those who write results. One that hangs must stop neither the others nor the close.
func TestAHookThatHangsAfterFinishTxHoldsUpNobody(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	hang := make(chan struct{})
	left := make(chan struct{}, 3)
	u := r.withEffects(func(c *worker.Config) {
		c.Grace, c.ExitsBy = time.Millisecond, 10*time.Millisecond
		c.OnFinish = func(_ context.Context, row job.Row, err error, _ worker.Next) {
			if err == nil {
				<-hang
				left <- struct{}{}
			}
		}
	})
	for range 3 {
		r.add(task{})
	}
	r.await("three hooks hang", func() bool { return u.Stats().Completed == 3 })
	r.reaches(r.add(task{Note: "rolls back with an error"}), job.Retrying)
	if err := u.close(); err != nil {
		t.Errorf("Run returned %v though all results are written", err)
	}
	close(hang)
	for range 3 {
		receive(t, left, "end of a hook")
	}
}
