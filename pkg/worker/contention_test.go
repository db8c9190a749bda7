package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// allTurns takes all turns of a queue of a schema, until the transaction's end.
const allTurns = `SELECT pg_advisory_xact_lock(hashtextextended(format('"%s".claim %s', $1::text, $2::text), n)) FROM generate_series(0, 7) n`

// All turns of the queue are held by transactions that do not end, as by clients that are frozen. The worker comes back a few
// times, within milliseconds and not with the next poll, and then claims without a turn.
func TestTurnsThatNobodyGivesBackDelayAQueueByLittle(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	w := r.worker(func(c *worker.Config) { c.Poll = time.Minute })
	worker.Handle(w, func(context.Context, *worker.Job[task]) error { return nil })
	if _, err := tx.Exec(t.Context(), allTurns, r.namespace, job.DefaultQueue); err != nil {
		t.Fatal(err)
	}
	id := r.add(task{})
	u := r.run(w)
	r.reaches(id, job.Completed)
	if n := u.Stats().Contended; n < 5 {
		t.Errorf("the worker gave way %d times before it claimed", n)
	}
}

// Refusals count in a row: a claim that came back full ends the count, or a backlog would add them up, and every claim would
// do without a turn from then on.
func TestAFullClaimEndsTheCountOfRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	hold := func() (release func()) {
		t.Helper()
		tx, err := r.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), allTurns, r.namespace, job.DefaultQueue); err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback(context.Background()) }
	}
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots, c.Poll = 1, time.Minute })
	starts, gate := make(chan int, 10), make(chan bool)
	worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error {
		starts <- j.Args.N
		if j.Args.N == 0 {
			<-gate
		}
		return nil
	})
	release := hold()
	for n := range 4 {
		r.add(task{N: n})
	}
	u := r.run(w)
	r.await("two refusals", func() bool { return u.Stats().Contended >= 2 })
	release()
	receive(t, starts, "first start")
	before := u.Stats().Contended
	release = hold()
	defer release()
	close(gate)
	receive(t, starts, "second start")
	if n := u.Stats().Contended - before; n < 5 {
		t.Errorf("%d refusals after a full claim, and one without a turn followed", n)
	}
}
