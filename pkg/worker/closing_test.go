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
