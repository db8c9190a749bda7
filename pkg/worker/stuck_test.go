package worker_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

// A handler's own transaction may hold the row of its job (FinishTx) for longer than the handler runs, and so may somebody
// at a prompt.
func TestAResultThatIsHeldUpByALockHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	g := newGate()
	u := r.start(g.handle)
	locked := r.add(task{})
	receive(t, g.started, "start")
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), fmt.Sprintf("SELECT FROM %s.live WHERE id = $1 FOR UPDATE", r.namespace), locked.UUID()); err != nil {
		t.Fatal(err)
	}
	close(g.free)
	r.await("a result on its way", func() bool { return u.Stats().Running == 0 && u.Stats().Unwritten == 1 })
	r.reaches(r.add(task{}), job.Completed)
	if n := u.Stats().Unwritten; n != 1 {
		t.Errorf("%d results are unwritten, want that of the locked row", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.reaches(locked, job.Completed)
}
