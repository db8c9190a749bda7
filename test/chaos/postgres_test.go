//go:build unix

package chaos_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

// outage is how long Postgres is away: longer than a lease.
func outage() time.Duration { return pick(7*time.Second, 45*time.Second) }

// Handlers that run while Postgres is away go on, are not called dead, and finish once: those that end during the outage,
// and those that end after it. The sweeper reaches the database half a lease before the worker does, which then has been
// silent for far longer than its lease. Short: away for 7 s with a lease of 4 s instead of 45 s and 15 s.
func TestRunningHandlersSurviveADeadPostgres(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ down, up func(r *rig) error }{
		"frozen": {
			func(r *rig) error { return r.postgres.Pause() },
			func(r *rig) error { return r.postgres.Resume() },
		},
		"killed and restarted": {
			func(r *rig) error { return r.postgres.Kill() },
			func(r *rig) error { return r.postgres.Restart(context.Background()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, privatePostgres())
			r.sweeper("sweeper")
			link := r.proxy()
			r.worker("worker", slots(60), func(s *spec) { s.Postgres = link.Through(t, r.url) })
			gate, open := r.gate()
			r.enqueueMany(20, work{For: 3 * time.Second}, job.Options{MaxAttempts: 1}) // end in mid outage
			r.enqueueMany(20, work{Gate: gate}, job.Options{MaxAttempts: 1})           // end after it
			r.awaitEvents(20*time.Second, 40, started)
			session := r.sessionOf("worker")
			must(t, way.down(r))
			pause(outage())
			link.Shut()
			must(t, way.up(r))
			pause(lease() / 2)
			link.Open()
			pause(lease() + 2*sweepEvery) // a sweeper that is wrong has time to show it
			open()
			r.awaitEmpty(30 * time.Second)
			r.check(audit{})
			r.allAlive()
			if r.sessionOf("worker") != session {
				t.Error("the worker has another session")
			}
			// B73: it takes jobs again.
			r.enqueue(work{})
			r.awaitEmpty(10 * time.Second)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// load is jobs that are enqueued at a steady rate while something happens.
type load struct {
	rig  *rig
	stop func()
}

// load enqueues rate jobs a second from the test's process, on a pool of its own.
func (r *rig) load(rate int, args work, more ...func(*pgxpool.Config)) *load {
	r.t.Helper()
	cfg, err := pgxpool.ParseConfig(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg.MaxConns = 4
	cfg.ConnConfig.RuntimeParams["application_name"] = "producer"
	if r.pooler {
		delete(cfg.ConnConfig.RuntimeParams, "application_name")
	}
	for _, f := range more {
		f(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(pool.Close)
	p := &producer{client: r.clientOn(pool), ledger: r.ledger, args: args}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.run(ctx, rate) })
	l := &load{rig: r, stop: sync.OnceFunc(func() { cancel(); wg.Wait() })}
	r.t.Cleanup(l.stop)
	return l
}

// rate returns events a second between two times.
func (a account) rate(from, to time.Time) float64 {
	return float64(a.count(from, to)) / to.Sub(from).Seconds()
}

// count returns how many events there are between two times.
func (a account) count(from, to time.Time) (n int) {
	for _, e := range a {
		if !e.At.Before(from) && e.At.Before(to) {
			n++
		}
	}
	return n
}

// Short: four seconds of load before and after instead of twenty, and half of the rate instead of 0.8.
func TestAKilledPostgresLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	r := newRig(t, privatePostgres())
	r.sweeper("sweeper")
	r.worker("one", slots(20))
	r.worker("two", slots(20))
	span := pick(4*time.Second, 20*time.Second)
	began := time.Now()
	l := r.load(500, work{})
	pause(span)
	killed := time.Now()
	must(t, r.postgres.Kill())
	pause(time.Second)
	must(t, r.postgres.Restart(context.Background()))
	back := time.Now()
	pause(time.Second + span)
	l.stop()
	end := time.Now()
	r.awaitEmpty(30 * time.Second)
	again := r.check(audit{starts: 2})
	if again > 0 {
		t.Errorf("%d jobs ran twice: nobody has died", again)
	}
	r.allAlive()
	ledgers := readLedgers(t, r.dir)
	before, after := ledgers.of(ended).rate(began.Add(time.Second), killed), ledgers.of(ended).rate(back.Add(time.Second), end)
	t.Logf("%.0f jobs/s before, %.0f after; %d acknowledged, %d refused", before, after, len(ledgers.of(acked)), len(ledgers.of(refused)))
	if after < pick(0.5, 0.8)*before {
		t.Errorf("the rate was %.0f/s and is %.0f/s", before, after)
	}
}

// B28: results that cannot be written wait, their claims stay renewed, and each is written once. Short: a stall of 5 s
// with a lease of 4 s instead of 8 s (and 45 s, with a lease of 15 s).
func TestResultsWaitOutAStallOfTheDatabase(t *testing.T) {
	t.Parallel()
	for name, stall := range map[string]func(r *rig){
		"frozen": func(r *rig) {
			must(r.t, r.postgres.Pause())
			pause(pick(5*time.Second, 45*time.Second))
			must(r.t, r.postgres.Resume())
		},
		"the table is locked": func(r *rig) {
			release := r.hold("LOCK TABLE weir.live IN ACCESS EXCLUSIVE MODE")
			pause(pick(5*time.Second, 8*time.Second))
			release()
		},
		"the table is locked for longer than a statement may take": func(r *rig) {
			release := r.hold("LOCK TABLE weir.live IN ACCESS EXCLUSIVE MODE")
			pause(pick(12*time.Second, 45*time.Second))
			release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, privatePostgres())
			r.sweeper("sweeper")
			r.worker("worker", slots(100))
			gate, open := r.gate()
			r.enqueueMany(100, work{Gate: gate}, job.Options{MaxAttempts: 1})
			r.awaitEvents(20*time.Second, 100, started)
			time.AfterFunc(500*time.Millisecond, func() { open() }) // all end within 100 ms, just after it began
			stall(r)
			r.awaitEmpty(30 * time.Second)
			pause(lease() + sweepEvery)
			r.check(audit{})
			r.allAlive()
		})
	}
}

// B28: backends that are ended between the execution and the commit of results. Each commit is made to take 50 ms, so
// that most of those that are hit are in the midst of one.
func TestABackendThatEndsInMidCommitLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, privatePostgres("commit_delay", "50000", "commit_siblings", "0"))
	r.sweeper("sweeper")
	r.worker("worker", slots(20))
	l := r.load(100, work{For: 10 * time.Millisecond})
	killed := 0
	for end := time.Now().Add(pick(5*time.Second, 30*time.Second)); time.Now().Before(end); pause(70 * time.Millisecond) {
		killed += r.count(`SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND state = 'active' AND application_name IN ('worker', 'producer')) AS x`)
	}
	l.stop()
	r.awaitEmpty(30 * time.Second)
	again := r.check(audit{starts: 2})
	t.Logf("%d backends ended, %d jobs ran twice", killed, again)
	if killed < 10 {
		t.Errorf("only %d backends were ended", killed)
	}
	if again > 0 {
		t.Errorf("%d jobs ran twice: nobody has died", again)
	}
}

// B74: a server that takes no writes for a while, as one that was demoted. Short: 5 s instead of 60 s.
func TestAReadOnlyDatabaseFailsNoJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, privatePostgres())
	r.sweeper("sweeper")
	r.worker("one")
	r.worker("two")
	l := r.load(50, work{For: 20 * time.Millisecond})
	pause(2 * time.Second)
	r.readOnly(true)
	pause(pick(5*time.Second, 60*time.Second))
	r.readOnly(false)
	back := time.Now()
	pause(pick(8*time.Second, 15*time.Second))
	l.stop()
	r.awaitEmpty(30 * time.Second)
	r.check(audit{})
	r.allAlive()
	ledgers := readLedgers(t, r.dir)
	late := 0
	for _, e := range ledgers.of(refused) {
		if !strings.Contains(e.Err, "read-only") {
			t.Errorf("an enqueue was refused with %q", e.Err)
		}
		if e.At.After(back.Add(5 * time.Second)) {
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d enqueues met a read-only connection 5 s after the switch", late)
	}
	if rate := ledgers.of(ended).rate(back.Add(4*time.Second), back.Add(8*time.Second)); rate < 40 {
		t.Errorf("%.0f jobs/s four seconds after the switch, want 50", rate)
	}
}

func (r *rig) readOnly(on bool) {
	r.t.Helper()
	ctx := r.t.Context()
	conn, err := r.pool.Acquire(ctx)
	must(r.t, err)
	defer conn.Release()
	for _, sql := range []string{
		"SET default_transaction_read_only = off",
		"ALTER SYSTEM SET default_transaction_read_only = " + map[bool]string{true: "on", false: "off"}[on],
		"SELECT pg_reload_conf()",
		"RESET default_transaction_read_only",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			r.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// B79: the server has no connection to give: to a worker that starts, and to one that has just lost all of its own. For
// less than a lease: the sweeper keeps its connections, and whoever cannot reach a database that works is dead by its
// account. Short: 1.5 s with a lease of 4 s instead of 10 s and 15 s.
func TestAFullServerOnlyDelays(t *testing.T) {
	t.Parallel()
	r := newRig(t, privatePostgres("max_connections", "40", "superuser_reserved_connections", "3"))
	r.sweeper("sweeper")
	r.worker("old")
	gate, open := r.gate()
	r.enqueueMany(10, work{Gate: gate})
	r.awaitEvents(10*time.Second, 10, started)
	l := r.load(50, work{})
	pause(time.Second)
	conn, err := r.pool.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	free := r.fill()
	_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name IN ('old', 'producer')")
	must(t, err)
	more := r.fill() // what they have left
	late := r.start(spec{Role: "worker", Name: "late"})
	pause(pick(1500*time.Millisecond, 10*time.Second))
	if late.logged("53300")+late.logged("too many") == 0 {
		t.Error("the worker that started met no full server: the test proves nothing")
	}
	free()
	more()
	back := time.Now()
	late.awaitSession()
	open()
	pause(5 * time.Second)
	l.stop()
	conn.Release()
	r.awaitEmpty(30 * time.Second)
	r.check(audit{})
	r.allAlive()
	if rate := readLedgers(t, r.dir).of(ended).rate(back.Add(2*time.Second), back.Add(5*time.Second)); rate < 35 {
		t.Errorf("%.0f jobs/s two seconds after there was room again, want 50", rate)
	}
}

// fill takes every connection that the server has left.
func (r *rig) fill() (release func()) {
	r.t.Helper()
	cfg, err := pgxpool.ParseConfig(r.url)
	must(r.t, err)
	cfg.MaxConns = 1000
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(r.t, err)
	var held []*pgxpool.Conn
	for {
		conn, err := pool.Acquire(context.Background())
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	release = sync.OnceFunc(func() {
		for _, c := range held {
			c.Release()
		}
		pool.Close()
	})
	r.t.Cleanup(release)
	return release
}

// B80: 200 callers that give up after 20 ms against a server whose commits take 100 ms. Short: 5 s instead of 60 s.
func TestImpatientCallersOpenNoMoreConnectionsThanThePool(t *testing.T) {
	t.Parallel()
	r := newRig(t, privatePostgres("commit_delay", "100000", "commit_siblings", "0"))
	const most = 10
	cfg, err := pgxpool.ParseConfig(r.url)
	must(t, err)
	cfg.MaxConns = most
	cfg.ConnConfig.RuntimeParams["application_name"] = "impatient"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	c := r.clientOn(pool)
	end := time.Now().Add(pick(5*time.Second, 60*time.Second))
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
				if e, err := c.Enqueue(ctx, work{}); err == nil {
					r.ledger.note(event{What: acked, ID: e.ID})
				}
				cancel()
			}
		})
	}
	seen := 0
	for time.Now().Before(end) {
		seen = max(seen, r.count("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'impatient'"))
		pause(20 * time.Millisecond)
	}
	wg.Wait()
	if seen > most*3/2 {
		t.Errorf("%d connections were open, the pool has %d", seen, most)
	}
	began := time.Now()
	e, err := c.Enqueue(t.Context(), work{})
	must(t, err)
	r.ledger.note(event{What: acked, ID: e.ID})
	if took := time.Since(began); took > 5*time.Second+crowd()/4 {
		t.Errorf("the next enqueue took %v", took)
	}
	r.worker("worker", slots(50))
	testenv.Eventually(t, 60*time.Second+crowd(), func() bool { return r.count("SELECT count(*) FROM weir.live") == 0 }, "jobs are live")
	r.check(audit{})
}
