package worker_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func TestCloseWaitsForHandlersWithinTheGrace(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		g := newGate()
		u := r.start(g.handle, func(c *worker.Config) { c.Grace = 5 * time.Second })
		id := r.add(task{})
		receive(t, g.started, "start")
		u.stop()
		r.await("the session shows it", func() bool {
			return r.count("SELECT count(*) FROM %s.sessions WHERE state = 'draining'") == 1
		})
		left := r.add(task{}) // nothing new starts
		close(g.free)
		if err := u.close(); err != nil {
			t.Error(err)
		}
		if row, err := r.Job(t.Context(), id); err != nil || row.State != job.Completed {
			t.Errorf("row %+v, %v", row, err)
		}
		if row, err := r.Job(t.Context(), left); err != nil || row.State != job.Available {
			t.Errorf("row %+v, %v", row, err)
		}
		if n := r.count("SELECT count(*) FROM %s.sessions"); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

func TestAHandlerThatObeysTheShutdownIsReleasedUncounted(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	g := newGate()
	var h hooks
	u := r.start(g.handle, h.install, func(c *worker.Config) { c.Grace = 50 * time.Millisecond })
	id := r.add(task{}, job.Options{MaxAttempts: 1})
	receive(t, g.started, "start")
	if err := u.close(); err != nil {
		t.Error(err)
	}
	row, err := r.Job(t.Context(), id)
	if err != nil || row.State != job.Available || row.Attempt != 0 || len(row.Attempts) != 0 || row.ReadyAt.After(time.Now()) {
		t.Errorf("row %+v, %v", row, err)
	}
	if failed, finished := h.counts(); failed != 0 || finished != 1 || !errors.Is(h.finished[0].err, job.ErrShutdown) {
		t.Errorf("%d failures and %d ends were told: %+v", failed, finished, h.finished)
	}
}

func TestAHandlerThatIgnoresTheShutdownIsReleasedForAfterTheExit(t *testing.T) {
	t.Parallel()
	for name, abandon := range map[string]bool{"released": false, "abandoned": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t, "none")
			release, started := make(chan struct{}), make(chan bool, 1)
			defer close(release)
			begun := time.Now()
			u := r.start(func(context.Context, *worker.Job[task]) error {
				started <- true
				<-release
				return nil
			}, func(c *worker.Config) { c.Grace, c.ExitsBy, c.Abandon = 50*time.Millisecond, time.Second, abandon })
			id := r.add(task{})
			receive(t, started, "start")
			if err := u.close(); err != nil || time.Since(begun) > 5*time.Second {
				t.Errorf("close: %v after %v", err, time.Since(begun))
			}
			row, err := r.Job(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if abandon {
				if n := r.count("SELECT count(*) FROM %s.sessions"); n != 1 || row.State != job.Running {
					t.Errorf("%d sessions, row %+v", n, row)
				}
				return
			}
			if wait := time.Until(row.ReadyAt); row.State != job.Scheduled || row.Attempt != 0 || wait < time.Second || wait > 3*time.Second {
				t.Errorf("due in %v: %+v", wait, row)
			}
		})
	}
}

func TestWhatWasClaimedAheadIsGivenBackAtTheClose(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	g := newGate()
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots, c.Grace = 2, 3*time.Second })
	worker.Handle(w, func(ctx context.Context, j *worker.Job[task]) error {
		if j.Args.N < 300 {
			return nil
		}
		return g.handle(ctx, j)
	})
	specs := make([]job.Spec, 1000)
	for i := range specs {
		specs[i].Args = task{N: i}
	}
	if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	u := r.run(w)
	receive(t, g.started, "start")
	receive(t, g.started, "start")
	u.stop()
	r.await("what had not started was given back, while the others run", func() bool {
		return r.count("SELECT count(*) FROM %s.live WHERE state = 1") == 2
	})
	if n := r.count("SELECT count(*) FROM %s.live WHERE state = 0 AND attempt = 0"); n != 698 {
		t.Errorf("%d of 698 wait with no attempt used", n)
	}
	close(g.free)
	if err := u.close(); err != nil {
		t.Error(err)
	}
}

// A process that is told to stop at any moment leaves no row behind in its name and counts no attempt that did not run.
func TestNoRowIsLeftRunningWhateverTheMomentOfTheClose(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	const jobs = 4000
	specs := make([]job.Spec, jobs)
	for i := range specs {
		specs[i].Args = task{N: i}
	}
	if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	runs := map[int]int{}
	for round := 0; r.count("SELECT count(*) FROM %s.live") > 0; round++ {
		u := r.start(func(_ context.Context, j *worker.Job[task]) error {
			mu.Lock()
			defer mu.Unlock()
			runs[j.Args.N]++
			return nil
		}, func(c *worker.Config) { c.Queues[0].Slots = 2 })
		if round < 15 {
			<-time.After(time.Duration(rand.IntN(60)) * time.Millisecond)
		} else {
			r.await("the rest is done", func() bool { return r.count("SELECT count(*) FROM %s.live") == 0 })
		}
		if err := u.close(); err != nil {
			t.Fatal(err)
		}
		if n := r.count("SELECT count(*) FROM %s.live WHERE state = 1 OR attempt <> 0"); n != 0 {
			t.Fatalf("round %d leaves %d rows that run or have an attempt", round, n)
		}
	}
	for n, times := range runs {
		if times != 1 {
			t.Errorf("job %d ran %d times", n, times)
		}
	}
	if n := r.count("SELECT count(*) FROM %s.outcomes"); n != jobs {
		t.Errorf("%d outcomes", n)
	}
}

func TestAClaimWhoseReplyIsLostAtTheCloseIsGivenBack(t *testing.T) {
	t.Parallel()
	r, wire := wired(t)
	u := r.start(newGate().handle, longPoll)
	r.settled(u)
	apart := on(t, testenv.RedisNone, testenv.Pool(t, testenv.Postgres(t)), r.namespace)
	id := apart.add(task{})
	tx, err := apart.pool.Begin(t.Context()) // its lock holds the claim up, until Run has been told to end
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+r.namespace+".live IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	wire.lose("claim_v1")
	if err := r.Wake(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	r.await("the claim is on its way", func() bool { return wire.losses() == 1 })
	u.stop()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := u.close(); err != nil {
		t.Error(err)
	}
	if n := u.Stats().Orphans; n != 1 { // Run has returned: it stands
		t.Errorf("%d orphans", n)
	}
	if row, err := r.Job(t.Context(), id); err != nil || row.State != job.Available || row.Attempt != 0 {
		t.Errorf("row %+v, %v", row, err)
	}
}

func TestResultsThatCannotBeWrittenAreReported(t *testing.T) {
	t.Parallel()
	pool, namespace := testenv.Schema(t)
	c, err := client.New(pool, client.Config{Namespace: namespace, Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := &rig{c, t, pool, namespace}
	g := newGate()
	u := r.start(g.handle, func(c *worker.Config) { c.Grace, c.ExitsBy = 50*time.Millisecond, 100*time.Millisecond })
	for range 3 {
		r.add(task{})
		receive(t, g.started, "start")
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+namespace+".live IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	close(g.free)
	var lost *worker.UnflushedError
	if err := u.close(); !errors.As(err, &lost) || lost.N != 3 {
		t.Errorf("Run returned %v", err)
	}
}

func TestAHintThatComesAtTheCloseIsPassedOn(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	g := newGate()
	closing := r.start(g.handle, longPoll, func(c *worker.Config) { c.Grace = 5 * time.Second })
	r.settled(closing)
	second := on(t, testenv.RedisReal, r.pool, r.namespace)
	s := make(starts, 1)
	second.settled(second.start(s.handle, longPoll))
	r.add(task{})
	receive(t, g.started, "start")
	closing.stop()
	r.await("it is closing", func() bool { return r.count("SELECT count(*) FROM %s.sessions WHERE state = 'draining'") == 1 })
	begun := time.Now()
	r.add(task{}) // in the closing process: its local wake must not keep it
	if took := receive(t, s, "start").Sub(begun); took > 2*time.Second {
		t.Errorf("it started %v later", took)
	}
	close(g.free)
}

// The last claim hangs while Run is told to end: a hint that was taken before is passed on, and one that comes after is
// for others from the start.
func TestAHintThatComesDuringTheLastClaimIsPassedOn(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"taken before": true, "comes after": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t, testenv.RedisReal)
			first := r.start(newGate().handle, longPoll)
			r.settled(first)
			second := on(t, testenv.RedisReal, r.pool, r.namespace)
			s := make(starts, 1)
			second.settled(second.start(s.handle, longPoll))
			release := r.holdClaims()
			if err := r.Wake(t.Context(), "default"); err != nil {
				t.Fatal(err)
			}
			r.await("a claim waits", func() bool {
				return r.count("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '%s.kinds'::regclass") > 0
			})
			if before {
				r.add(task{}) // after the claim's time: not for it
			}
			first.stop()
			if !before {
				r.add(task{})
			}
			release()
			begun := time.Now()
			if took := receive(t, s, "start").Sub(begun); took > 3*time.Second {
				t.Errorf("it started %v later", took)
			}
		})
	}
}

// holdClaims makes claims wait until release is called. Enqueueing goes on.
func (r *rig) holdClaims() (release func()) {
	r.t.Helper()
	tx, err := r.pool.Begin(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), "LOCK TABLE "+r.namespace+".kinds IN ACCESS EXCLUSIVE MODE"); err != nil {
		r.t.Fatal(err)
	}
	return func() { _ = tx.Rollback(context.Background()) }
}

func TestAWorkerIsRefusedItsContradictions(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	for name, cfg := range map[string]worker.Config{
		"a lease that is renewed too late":  {Lease: 5 * time.Second, Renew: 30 * time.Second},
		"a lease that is too short":         {Lease: time.Second},
		"an exit before the grace":          {Grace: time.Minute, ExitsBy: time.Second},
		"a queue twice":                     {Queues: []worker.Queue{{Name: "a", Slots: 1}, {Name: "a", Slots: 1}}},
		"a queue without slots":             {Queues: []worker.Queue{{Name: "a"}}},
		"less than one at a time":           {Concurrency: -1},
		"a poll that never ends":            {Poll: time.Millisecond},
		"a timeout of nothing":              {Timeout: -5},
		"a negative grace":                  {Grace: -time.Second},
		"a queue whose name is not allowed": {Queues: []worker.Queue{{Name: "a\x00b", Slots: 1}}},
	} {
		var field *job.FieldError
		if _, err := worker.New(r.Client, cfg); !errors.As(err, &field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := worker.New(nil, worker.Config{}); err == nil {
		t.Error("a worker without a client")
	}
}
