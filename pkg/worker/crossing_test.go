package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// Two statements that cross: neither sees what the other has done, since that is not committed. Each is followed by a look in a
// statement of its own, so that one of the two sees the other. No sweeper is there to find what they miss.

// holdCommits makes each transaction that does what event says ("DELETE ON …", with a condition) wait before its commit until let
// is called. waiting tells whether one waits.
func (r *rig) holdCommits(event string) (waiting func() bool, let func()) {
	r.t.Helper()
	conn, err := r.pool.Acquire(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	place := rand.Int32()
	if _, err := conn.Exec(context.Background(), "SELECT pg_advisory_lock(1, $1)", place); err != nil {
		r.t.Fatal(err)
	}
	let = func() {
		if conn != nil {
			_, _ = conn.Exec(context.Background(), "SELECT pg_advisory_unlock_all()")
			conn.Release()
			conn = nil
		}
	}
	r.t.Cleanup(let)
	r.exec(`CREATE FUNCTION %[1]s.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1, ` + fmt.Sprint(place) + `); RETURN NULL; END $$`)
	r.exec("CREATE CONSTRAINT TRIGGER hold AFTER " + event + " EXECUTE FUNCTION %[1]s.hold()")
	return func() bool {
		return r.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = 1 AND objid = $1::int8::oid AND '%[1]s' <> ''", int64(place)) > 0
	}, let
}

// passed waits until what the worker owes is looked at: as many passes as it has made twice in a row.
func (r *rig) passed(u *running, atLeast int64) {
	r.t.Helper()
	r.await("a pass", func() bool { return u.Stats().Passes >= atLeast })
	for last := int64(-1); last != u.Stats().Passes; <-time.After(100 * time.Millisecond) {
		last = u.Stats().Passes
	}
}

// postPass: the job that waits was blocked while the statement that frees the key had looked and was not committed.
func TestAJobThatIsBlockedWhileItsKeyIsBeingFreedIsStarted(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	g := newGate()
	u := r.start(g.handle, longPoll)
	r.settled(u)
	waiting, let := r.holdCommits("DELETE ON %[1]s.locks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW")
	r.add(task{N: 1}, keyed(job.Mutex("k")))
	receive(t, g.started, "start")
	close(g.free)
	r.await("the end of the first is not committed", waiting)
	second := r.add(task{N: 2}, keyed(job.Mutex("k")))
	r.reaches(second, job.Blocked)
	r.passed(u, 1) // its own look comes too early
	let()
	r.reaches(second, job.Completed)
}

// recheck: the key was freed while the statement that blocks the job had looked and was not committed.
func TestAJobWhoseKeyIsFreedWhileItIsBeingBlockedIsStarted(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	g := newGate()
	u := r.start(g.handle, longPoll)
	r.settled(u)
	waiting, let := r.holdCommits("UPDATE ON %[1]s.live DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 2)")
	first := r.add(task{N: 1}, keyed(job.Mutex("k")))
	receive(t, g.started, "start")
	second := r.add(task{N: 2}, keyed(job.Mutex("k")))
	r.await("the block of the second is not committed", waiting)
	close(g.free)
	r.reaches(first, job.Completed)
	r.passed(u, 1) // the look of the first comes too early
	let()
	r.reaches(second, job.Completed)
}

// orphans: a row that names this process' session and that it does not know, whatever has lost it, is given back at a renewal.
func TestARowThatIsOursWithoutOurKnowledgeIsGivenBack(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	started := make(chan job.Row, 10)
	u := r.start(func(_ context.Context, j *worker.Job[task]) error { started <- j.Row; return nil }, longPoll)
	r.settled(u)
	id := r.add(task{}, job.Options{Delay: time.Hour})
	r.exec(`UPDATE %[1]s.live SET state = 1, attempt = 1, fence = fence + 1, claimed_at = clock_timestamp(), ready_at = clock_timestamp(),
		session = (SELECT s.id FROM %[1]s.sessions AS s WHERE s.role = 'worker') WHERE id = $1`, id.UUID())
	if row := receive(t, started, "start"); row.ID != id || row.Attempt != 1 {
		t.Errorf("started %+v", row)
	}
	r.reaches(id, job.Completed)
	if n := u.Stats().Orphans; n != 1 {
		t.Errorf("%d orphans, want 1", n)
	}
}
