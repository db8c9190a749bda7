package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// stubborn is a handler that ignores its context until it is let go.
func stubborn(started chan<- job.Row, free <-chan struct{}) func(context.Context, *worker.Job[task]) error {
	return func(_ context.Context, j *worker.Job[task]) error {
		started <- j.Row
		<-free
		return nil
	}
}

func TestAKeyOutlivesAHandlerThatIgnoresTheClose(t *testing.T) {
	t.Parallel()
	for name, abandon := range map[string]bool{"released": false, "abandoned": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t, "none")
			started, free := make(chan job.Row, 1), make(chan struct{})
			defer close(free)
			closing := r.start(stubborn(started, free), func(c *worker.Config) {
				c.Grace, c.ExitsBy, c.Abandon = 20*time.Millisecond, 200*time.Millisecond, abandon
			})
			holder := r.add(task{N: 1}, keyed(job.Mutex("k")))
			receive(t, started, "start")
			waiter := r.add(task{N: 2}, keyed(job.Mutex("k")))
			r.reaches(waiter, job.Blocked)
			begun := time.Now()
			if err := closing.close(); err != nil {
				t.Fatal(err)
			}
			l := newLedger()
			r.start(l.mutexed)
			if abandon {
				<-time.After(300 * time.Millisecond)
				if row, err := r.Job(t.Context(), holder); err != nil || row.State != job.Running || len(l.order("k")) > 0 {
					t.Errorf("row %+v, %v; started %v", row, err, l.order("k"))
				}
				return
			}
			r.rests()
			if took := time.Since(begun); took < 2*time.Second {
				t.Errorf("the key was given away after %v, while the process may have run", took)
			}
			if got := l.order("k"); !slices.Equal(got, []int{1, 2}) {
				t.Errorf("started %v", got)
			}
		})
	}
}

// The database is frozen for longer than the lease: a handler that holds a key is told before its key can be given away.
func TestAKeyedHandlerIsStoppedBeforeItsLeaseCanEnd(t *testing.T) {
	t.Parallel()
	pg := testenv.PrivatePostgres(t)
	pool, namespace := testenv.SchemaOn(t, pg.URL())
	r := on(t, testenv.RedisNone, pool, namespace)
	causes := make(chan error, 2)
	started := make(chan bool, 2)
	r.start(func(ctx context.Context, j *worker.Job[task]) error {
		started <- true
		select {
		case <-ctx.Done():
			causes <- context.Cause(ctx)
			return nil
		case <-time.After(4 * time.Second):
			return nil
		}
	}, shortLease)
	r.add(task{N: 1}, keyed(job.Mutex("k")))
	free := r.add(task{N: 2}) // without keys: it goes on
	receive(t, started, "start")
	receive(t, started, "start")
	begun := time.Now()
	if err := pg.Pause(); err != nil {
		t.Fatal(err)
	}
	cause := receive(t, causes, "end of the handler with a key")
	if took := time.Since(begun); !errors.Is(cause, job.ErrLeaseLost) || took > 3*time.Second {
		t.Errorf("cause %v after %v, with a lease of 3s", cause, took)
	}
	if err := pg.Resume(); err != nil {
		t.Fatal(err)
	}
	r.reaches(free, job.Completed)
	r.rests() // the other was given back, and ran again
	if len(causes) > 0 {
		t.Errorf("another handler was stopped: %v", <-causes)
	}
}

func TestALostSessionsKeysAreNotItsOwnAnyMore(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		started, ended := make(chan job.Row, 10), make(chan error, 10)
		free := make(chan struct{})
		u := r.start(func(ctx context.Context, j *worker.Job[task]) error {
			started <- j.Row
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
			case <-free:
			}
			return nil
		})
		r.add(task{N: 1}, keyed(job.Mutex("k")))
		receive(t, started, "start")
		second := r.add(task{N: 2}, keyed(job.Mutex("k")))
		r.reaches(second, job.Blocked)
		r.exec("UPDATE %s.sessions SET dead_at = clock_timestamp()")
		if _, err := r.Store().Recover(t.Context(), nil, 100, 7*time.Second); err != nil {
			t.Fatal(err)
		}
		if cause := receive(t, ended, "end of the handler"); !errors.Is(cause, job.ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
		if row := receive(t, started, "the next start"); row.ID == second {
			t.Error("what was recovered lost its place")
		}
		close(free)
		r.rests()
		r.await("both are counted", func() bool { return u.Stats().Completed == 2 })
	})
}

// The answers to an admit, a finish with a handover and a pass are lost after they were committed: nothing hangs, and the
// keys keep their order.
func TestLostAnswersAboutKeysAreMadeUpFor(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"admit_v1", "finish_keyed_v1", "pass_v1"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			r, wire := wired(t)
			l := newLedger()
			u := r.start(l.mutexed)
			r.settled(u)
			for n := range 20 {
				if n == 5 {
					wire.lose(verb)
				}
				r.add(task{N: n}, keyed(job.Mutex("k")))
			}
			r.rests()
			if n := wire.losses(); n != 1 {
				t.Errorf("%d answers were lost", n)
			}
			if most := l.highest("k"); most != 1 {
				t.Errorf("%d at once", most)
			}
			if got := slices.Compact(l.order("k")); len(got) != 20 || !slices.IsSorted(got) {
				t.Errorf("started %v", got)
			}
		})
	}
}

// Who was blocked by an admission whose answer was lost is looked at once more all the same (`recheck`): the key may have
// been freed by a finish that did not see it yet.
func TestAnAdmissionWhoseAnswerIsLostOwesASecondLook(t *testing.T) {
	t.Parallel()
	r, wire := wired(t)
	g := newGate()
	u := r.start(g.handle)
	r.add(task{N: 1}, keyed(job.Mutex("k")))
	receive(t, g.started, "start")
	r.settled(u)
	before := u.Stats().Passes
	wire.lose("admit_v1")
	id := r.add(task{N: 2}, keyed(job.Mutex("k")))
	r.reaches(id, job.Blocked)
	r.await("a second look", func() bool { return wire.losses() == 1 && u.Stats().Passes > before })
	close(g.free)
	r.rests()
}

// A row whose payload is gone does not hold its key for ever.
func TestAKeyedJobWithoutAPayloadPassesItsKeyOn(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	g := newGate()
	r.start(g.handle, func(c *worker.Config) { c.MissingPayloadGrace = 1500 * time.Millisecond })
	r.add(task{N: 1}, keyed(job.Mutex("k")))
	receive(t, g.started, "start")
	broken := r.add(task{N: 2}, keyed(job.Mutex("k")))
	r.reaches(broken, job.Blocked)
	r.exec("DELETE FROM %s.jobs WHERE id = $1", broken)
	last := r.add(task{N: 3}, keyed(job.Mutex("k")))
	close(g.free)
	r.reaches(broken, job.Discarded)
	r.reaches(last, job.Completed)
	r.rests()
}

func TestACappedKindKeepsItsCapWithKeys(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		l := newLedger()
		w := r.worker(func(c *worker.Config) { c.Queues[0].Slots = 10 })
		worker.Handle(w, func(ctx context.Context, j *worker.Job[task]) error {
			defer l.enter(&job.Row{Keys: []job.Key{job.Mutex("kind")}}, 0)()
			return l.mutexed(ctx, j)
		}, worker.HandlerOptions{Slots: 2})
		worker.Handle(w, func(context.Context, *worker.Job[other]) error { return nil })
		for n := range 30 {
			r.add(task{N: n}, keyed(job.Limit("k", 5)))
			r.add(other{N: n}, keyed(job.Limit("k", 5)))
		}
		r.run(w)
		r.rests()
		if most := l.highest("kind"); most != 2 {
			t.Errorf("%d of the kind at once, its slots are 2", most)
		}
	})
}

// While a thousand jobs wait for a key, they cost no statement.
func TestBlockedJobsCostNothing(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		g := newGate()
		specs := make([]job.Spec, 1000)
		for n := range specs {
			specs[n] = job.Spec{Args: task{N: n}, Options: keyed(job.Mutex("k"))}
		}
		if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
			t.Fatal(err)
		}
		u := r.start(g.handle, longPoll)
		receive(t, g.started, "start")
		r.await("the others are blocked", func() bool { return r.count("SELECT count(*) FROM %s.live WHERE state = 2") == 999 })
		r.settled(u)
		before := u.Stats()
		<-time.After(500 * time.Millisecond)
		after := u.Stats()
		if n := after.Claims - before.Claims + after.Admits - before.Admits + after.Passes - before.Passes; n > 2 {
			t.Errorf("%d statements in half a second", n)
		}
		if after.Admits > 15 {
			t.Errorf("%d admissions blocked 999 jobs", after.Admits)
		}
		begun := time.Now()
		r.add(task{N: 5000})
		receive(t, g.started, "start of a job without keys")
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v", took)
		}
		r.exec("UPDATE %s.live SET keys = NULL, flags = 0, state = 0, line_at = NULL, blocked_on = NULL WHERE state = 2") // let the test end soon
		r.exec("DELETE FROM %s.live WHERE state = 0")
		close(g.free)
	})
}
