package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// lock locks the live row of a job until unlock is called.
func (r *rig) lock(id job.ID) (unlock func()) {
	r.t.Helper()
	tx, err := r.pool.Begin(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), fmt.Sprintf("SELECT FROM %s.live WHERE id = $1 FOR UPDATE", r.namespace), id); err != nil {
		r.t.Fatal(err)
	}
	return func() { _ = tx.Rollback(context.Background()) }
}

// A handler's own transaction may hold the row of its job (FinishTx) for longer than the handler runs, and so may somebody
// at a prompt.
func TestAResultThatIsHeldUpByALockHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	g := newGate()
	u := r.start(g.handle)
	locked := r.add(task{})
	receive(t, g.started, "start")
	unlock := r.lock(locked)
	defer unlock()
	close(g.free)
	r.await("a result on its way", func() bool { return u.Stats().Running == 0 && u.Stats().Unwritten == 1 })
	r.reaches(r.add(task{}), job.Completed)
	if n := u.Stats().Unwritten; n != 1 {
		t.Errorf("%d results are unwritten, want that of the locked row", n)
	}
	unlock()
	r.reaches(locked, job.Completed)
}

// The time by which the process is gone counts, not the limits of the statements that are under way then.
func TestACloseDoesNotWaitLongerForAResultThanItMay(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	g := newGate()
	u := r.start(g.handle, func(c *worker.Config) { c.Grace, c.ExitsBy = time.Millisecond, time.Millisecond })
	id := r.add(task{})
	receive(t, g.started, "start")
	unlock := r.lock(id)
	defer unlock()
	close(g.free)
	r.await("a result on its way", func() bool { return u.Stats().Running == 0 && u.Stats().Unwritten == 1 })
	begun := time.Now()
	err := u.close()
	var unflushed *worker.UnflushedError
	if took := time.Since(begun); !errors.As(err, &unflushed) || unflushed.N != 1 || took > 8*time.Second {
		t.Errorf("Run returned %v after %v, want one unflushed result after about 5s", err, took)
	}
}
