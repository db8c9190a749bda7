//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// lossyClient returns a client whose answers can be lost on the way.
func (r *rig) lossyClient() (*client.Client, *testenv.Proxy) {
	r.t.Helper()
	p := r.proxy()
	cfg, err := pgxpool.ParseConfig(p.Through(r.t, r.url))
	must(r.t, err)
	cfg.MaxConns = 4
	// The text goes along with each statement, so that the proxy can tell them apart.
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(r.t.Context(), cfg)
	must(r.t, err)
	r.t.Cleanup(pool.Close)
	return r.clientOn(pool), p
}

// B104, and P1: the answer to a COMMIT is lost, the producer says it again with the same ids, while workers run what is
// there: each job runs once. Every other time the answer to the statement itself is lost.
func TestALostAnswerAndARetryRunTheJobOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sweeper("sweeper") // nobody hints at a job whose answer was lost
	r.worker("worker")
	c, p := r.lossyClient()
	for i := range pick(20, 200) {
		marker := "commit"
		if i%2 == 1 {
			marker = "payload-4711" // in the arguments of the one statement of Enqueue
		}
		args := work{Gate: "", Do: "payload-4711"}
		p.LoseAnswerTo(marker)
		id, err := r.transact(c, args, i%2 == 0)
		var unknown *client.UnknownError
		if !errors.As(err, &unknown) || len(unknown.IDs) != 1 {
			t.Fatalf("the answer to %q was lost, got %v", marker, err)
		}
		if !id.IsZero() && id != unknown.IDs[0] {
			t.Errorf("the error names %s, the job is %s", unknown.IDs[0], id)
		}
		if i%3 == 0 { // it may have run by now
			testenv.Eventually(t, 10*time.Second+crowd(), func() bool { return r.count("SELECT count(*) FROM weir.live") == 0 }, "jobs are live")
		}
		e, err := c.Enqueue(t.Context(), args, job.Options{ID: unknown.IDs[0]})
		must(t, err)
		r.ledger.note(event{What: acked, ID: e.ID})
	}
	if n := p.Lost(); n < pick(20, 200) {
		t.Errorf("only %d answers were lost", n)
	}
	r.awaitEmpty(10 * time.Second)
	r.check(audit{})
}

// transact enqueues a job, in a transaction or not.
func (r *rig) transact(c *client.Client, args work, inTx bool) (id job.ID, err error) {
	if !inTx {
		_, err = c.Enqueue(r.t.Context(), args)
		return id, err
	}
	err = c.InTx(r.t.Context(), func(tx pgx.Tx) error {
		e, err := c.EnqueueTx(r.t.Context(), tx, args)
		id = e.ID
		return err
	})
	return id, err
}

// A producer that is killed in mid load has lost nothing that it was told is there. It is a process of its own.
func TestAKilledProducerLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker("worker", slots(50))
	for range 3 {
		p := r.start(spec{Role: "producer", Name: "producer", Rate: 300})
		r.awaitEvents(20*time.Second, 100, acked, "producer")
		pause(500 * time.Millisecond)
		p.kill()
	}
	r.awaitEmpty(20 * time.Second)
	r.check(audit{})
}

// B16: a producer whose clock is an hour off, either way: what is due now runs now, what is delayed runs after its delay
// on the database's clock. Here the client is told that the database is an hour away, so that its ids and times are what such
// a host would make, and ids of such hosts are used as the caller's own; TestAClockThatIsAnHourOffChangesNothing sets the
// clocks of whole processes.
func TestAProducerWhoseClockIsAnHourOffDelaysNothing(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"an hour slow": -time.Hour, "an hour fast": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.sweeper("sweeper")
			r.worker("worker")
			r.client.Learn(time.Now().Add(off), time.Now())
			began := time.Now()
			for range 10 {
				r.enqueue(work{})
			}
			delayed := r.enqueue(work{}, job.Options{Delay: 2 * time.Second})
			due := ask[time.Time](r, "SELECT scheduled_at FROM weir.jobs WHERE id = $1", delayed.UUID())
			if d := due.Sub(began); d < 2*time.Second || d > 4*time.Second+crowd()/2 {
				t.Errorf("a delay of 2 s comes due after %v", d)
			}
			ids := &job.IDs{}
			ids.SetOffset(off)
			e, err := r.client.Enqueue(t.Context(), work{}, job.Options{ID: ids.New()})
			var field *job.FieldError
			switch {
			case off > 0 && !errors.As(err, &field):
				t.Errorf("an id an hour ahead: got %v", err)
			case off < 0 && err != nil:
				t.Errorf("an id an hour old: got %v", err)
			case off < 0:
				r.ledger.note(event{What: acked, ID: e.ID})
			}
			r.awaitEmpty(10 * time.Second)
			r.check(audit{})
			r.allAlive()
			for _, e := range readLedgers(t, r.dir).of(started) {
				if e.ID != delayed && e.At.Sub(began) > time.Second+crowd()/4 {
					t.Errorf("job %s started after %v, want at once", e.ID, e.At.Sub(began))
				}
			}
		})
	}
}

// B07 and B08: nothing runs before its commit, nothing at all that was rolled back, to a savepoint, or whose connection
// was lost; and what is committed long after its hint does not wait for a poll. Short: 20 transactions of each kind.
func TestTransactionsDecideWhatRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sweeper("sweeper")
	r.worker("one")
	r.worker("two")
	n := pick(20, 200)
	ctx := t.Context()
	committed := map[job.ID]time.Time{}
	type open struct {
		tx pgx.Tx
		id job.ID
	}
	var slow []open
	cfg := r.pool.Config()
	cfg.MaxConns = int32(n + 4)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	for range n { // their hints go out now, their commits come 3 s later
		tx, err := pool.Begin(ctx)
		must(t, err)
		e, err := r.client.EnqueueTx(ctx, tx, work{})
		must(t, err)
		slow = append(slow, open{tx, e.ID})
	}
	r.rolledBack(pool, n)
	pause(3 * time.Second)
	if n := len(readLedgers(t, r.dir).of(started)); n != 0 {
		t.Errorf("%d jobs have run before their commit", n)
	}
	for _, o := range slow {
		must(t, o.tx.Commit(ctx))
		committed[o.id] = time.Now()
		r.ledger.note(event{What: acked, ID: o.id})
	}
	must(t, r.client.InTx(ctx, func(tx pgx.Tx) error {
		e, err := r.client.EnqueueTx(ctx, tx, work{})
		r.ledger.note(event{What: acked, ID: e.ID})
		return err
	}))
	most := 6*time.Second + crowd() // the sweeper looks for what was committed long after its hint every 5 s
	r.awaitEmpty(most + 4*time.Second)
	for id, at := range r.starts(ids(committed), 1) {
		if took := at.Sub(committed[id]); took > most {
			t.Errorf("job %s started %v after its commit, at most %v", id, took, most)
		}
	}
	r.check(audit{})
	if n := r.count("SELECT count(*) FROM weir.jobs"); n != len(committed)+1 {
		t.Errorf("%d jobs are in the log, want %d", n, len(committed)+1)
	}
}

// rolledBack enqueues in n transactions of each kind that come to nothing. Their ids are not noted: none may run.
func (r *rig) rolledBack(pool *pgxpool.Pool, n int) {
	r.t.Helper()
	ctx := r.t.Context()
	for range n {
		tx, err := pool.Begin(ctx)
		must(r.t, err)
		_, err = r.client.EnqueueTx(ctx, tx, work{})
		must(r.t, err)
		must(r.t, tx.Rollback(ctx))

		tx, err = pool.Begin(ctx)
		must(r.t, err)
		inner, err := tx.Begin(ctx)
		must(r.t, err)
		_, err = r.client.EnqueueTx(ctx, inner, work{})
		must(r.t, err)
		must(r.t, inner.Rollback(ctx))
		must(r.t, tx.Commit(ctx))
	}
	conn, err := pgx.Connect(ctx, r.url)
	must(r.t, err)
	tx, err := conn.Begin(ctx)
	must(r.t, err)
	_, err = r.client.EnqueueTx(ctx, tx, work{})
	must(r.t, err)
	must(r.t, conn.PgConn().Conn().Close())
}

// B71: rows that are deleted, expire or are swept away while their jobs run. The worker drops the result with a line in
// its log, nothing comes back, and it goes on.
func TestRowsThatGoWhileTheirJobsRunAreDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sweeper("sweeper")
	w := r.worker("worker", slots(40))
	gate, open := r.gate()
	var list []job.ID
	for _, do := range []string{"", doFail, doDeaf} {
		list = append(list, r.enqueueMany(3, work{Do: do, Gate: gate})...)
	}
	expiring := r.enqueue(work{Gate: gate}, job.Options{ExpiresIn: time.Second})
	kept := r.enqueue(work{Gate: gate})
	r.awaitEvents(10*time.Second, len(list)+2, started)
	for i, id := range list {
		switch i % 3 {
		case 0: // by SQL, all of it
			r.exec("DELETE FROM weir.live WHERE id = $1", id.UUID())
			r.exec("DELETE FROM weir.jobs WHERE id = $1", id.UUID())
		case 1: // its log row alone: the result is still taken
			r.exec("DELETE FROM weir.jobs WHERE id = $1", id.UUID())
		case 2: // its live row alone
			r.exec("DELETE FROM weir.live WHERE id = $1", id.UUID())
		}
	}
	pause(2 * time.Second) // the expiry passes, and a sweeper that is wrong ends it
	var state *client.StateError
	if err := r.client.Delete(t.Context(), kept); err != nil && !errors.As(err, &state) {
		t.Errorf("delete what runs: %v", err)
	} else {
		t.Logf("delete what runs: %v", err)
	}
	open()
	r.awaitEvents(10*time.Second, len(list)+2, ended)
	r.enqueue(work{})
	r.awaitEmpty(20 * time.Second)
	if !w.isRunning() || strings.Contains(w.text(), "panic") {
		t.Error("the worker has panicked")
	}
	if n := r.count("SELECT count(*) FROM weir.outcomes WHERE id = $1", expiring.UUID()); n != 1 {
		t.Error("a job that had started in time has not completed")
	}
	for i, id := range list {
		n := r.count("SELECT (SELECT count(*) FROM weir.outcomes WHERE id = $1) + (SELECT count(*) FROM weir.dead WHERE id = $1)", id.UUID())
		if want := map[bool]int{true: 1, false: 0}[i%3 == 1]; n != want {
			t.Errorf("job %d has %d outcomes, want %d", i, n, want)
		}
	}
	if n := r.count("SELECT count(*) FROM weir.live"); n != 0 {
		t.Errorf("%d rows came back", n)
	}
	for id, starts := range readLedgers(t, r.dir).of(started).byID() {
		if len(starts) != 1 {
			t.Errorf("job %s started %d times", id, len(starts))
		}
	}
	gate2, open2 := r.gate()
	r.enqueueMany(5, work{Gate: gate2})
	testenv.Eventually(t, 10*time.Second+crowd(), func() bool { return r.count("SELECT count(*) FROM weir.live WHERE state = 1") == 5 }, "not running")
	r.exec("TRUNCATE weir.live")
	open2()
	pause(lease() + sweepEvery)
	if n := r.count("SELECT count(*) FROM weir.live"); n != 0 {
		t.Errorf("%d rows came back after the table was emptied", n)
	}
	r.enqueue(work{})
	r.awaitEmpty(10 * time.Second)
	w.signal(syscall.SIGTERM)
	if code := w.wait(20 * time.Second); code != exitClean {
		t.Errorf("the worker ended with code %d", code)
	}
}

// B73, the producer's side: Postgres is away for longer than an enqueue waits, under a steady load. Enqueues fail meanwhile, and
// succeed again as soon as it is back, though at every moment some of those that wait have just run out of time.
// Short: away for 4 s with a timeout of a second instead of a minute and 10 s.
func TestEnqueuesSucceedAgainAfterAnOutageLongerThanTheirTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, privatePostgres())
	r.worker("worker", slots(50))
	p := r.start(spec{Role: "producer", Name: "producer", Rate: 200, ClientTimeout: pick(time.Second, 0)})
	r.awaitEvents(20*time.Second, 100, acked)
	must(t, r.postgres.Kill())
	pause(pick(4*time.Second, time.Minute))
	if n := len(readLedgers(t, r.dir).of(refused)); n == 0 {
		t.Error("no enqueue has failed: the test proves nothing")
	}
	must(t, r.postgres.Restart(context.Background()))
	back := time.Now()
	testenv.Eventually(t, 6*time.Second+crowd(), func() bool {
		return readLedgers(t, r.dir).of(acked).last().After(back)
	}, "no enqueue succeeds after Postgres is back")
	t.Logf("the first enqueue succeeds %v after Postgres is back", r.firstAfter(acked, back).Sub(back))
	p.stop()
	r.awaitEmpty(30 * time.Second)
	r.check(audit{})
	r.allAlive()
}
