package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// With a prefetch a claim is made though every slot is in use. It may come short, and then the worker sleeps without
// standing in the idle set.
func TestAWorkerWhoseSlotsWereFullAtItsLastClaimHearsOfTheNextJob(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	g := newGate()
	w := r.worker(longPoll, func(c *worker.Config) { c.Queues[0].Slots = 2 })
	worker.Handle(w, g.handle)
	worker.Handle(w, func(context.Context, *worker.Job[other]) error { return nil })
	u := r.run(w)
	r.settled(u)
	producer := on(t, testenv.RedisReal, r.pool, r.namespace)
	burst := make([]job.Spec, 0, 202)
	for range 200 {
		burst = append(burst, job.Spec{Args: other{}}) // quick ones: the worker claims ahead
	}
	burst = append(burst, job.Spec{Args: task{}}, job.Spec{Args: task{}})
	if _, err := producer.EnqueueMany(t.Context(), burst); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		receive(t, g.started, "start of a slow job")
	}
	r.settled(u) // the claims that follow the burst are over
	close(g.free)
	r.await("all to end", func() bool { return u.Stats().Completed == 202 })
	r.settled(u)
	begun := time.Now()
	producer.add(task{})
	receive(t, g.started, "start of a job that was hinted")
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("pickup took %v", took)
	}
}
