package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// ledger is an account of who holds a key, beside the queue's own.
type ledger struct {
	mu     sync.Mutex
	holds  map[string]int
	most   map[string]int
	starts map[string][]int // N of each job, in the order in which they started
}

func newLedger() *ledger {
	return &ledger{holds: map[string]int{}, most: map[string]int{}, starts: map[string][]int{}}
}

// enter notes the start of a handler; call the function it returns at its end.
func (l *ledger) enter(row *job.Row, n int) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range row.Keys {
		l.holds[k.Name()]++
		l.most[k.Name()] = max(l.most[k.Name()], l.holds[k.Name()])
		l.starts[k.Name()] = append(l.starts[k.Name()], n)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, k := range row.Keys {
			l.holds[k.Name()]--
		}
	}
}

// order returns what started with a key, in order.
func (l *ledger) order(key string) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.starts[key])
}

func (l *ledger) highest(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most[key]
}

// keyed are the options of a job with keys.
func keyed(keys ...job.Key) job.Options { return job.Options{Keys: keys} }

// mutexed handles jobs in the ledger's account, for a moment each.
func (l *ledger) mutexed(ctx context.Context, j *worker.Job[task]) error {
	defer l.enter(&j.Row, j.Args.N)()
	select {
	case <-time.After(2 * time.Millisecond):
	case <-ctx.Done():
	}
	return nil
}

// rests waits until nothing is live, and tells of locks that are left.
func (r *rig) rests() {
	r.t.Helper()
	r.await("everything is done", func() bool { return r.count("SELECT count(*) FROM %s.live") == 0 })
	r.await("no lock row is left", func() bool { return r.count("SELECT count(*) FROM %s.locks") == 0 })
	if n := r.count("SELECT count(*) FROM %s.waits"); n != 0 {
		r.t.Errorf("%d rows wait for further keys", n)
	}
}

func TestAMutexRunsOneAtATimeAndInOrder(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		l := newLedger()
		var want []int
		for n := range 20 {
			want = append(want, n)
			for _, key := range []string{"a", "b", "c"} {
				r.add(task{N: n}, keyed(job.Mutex(key)))
			}
		}
		r.start(l.mutexed)
		if r.Bus().Enabled() { // a second process on the same Redis
			r.run(r.handling(l.mutexed))
		}
		for n := range 20 { // and more come while they run
			want = append(want, 20+n)
			for _, key := range []string{"a", "b", "c"} {
				r.add(task{N: 20 + n}, keyed(job.Mutex(key)))
			}
		}
		r.rests()
		for _, key := range []string{"a", "b", "c"} {
			if got := l.order(key); !slices.Equal(got, want) {
				t.Errorf("%s: started %v", key, got)
			}
			if most := l.highest(key); most != 1 {
				t.Errorf("%s: %d at once", key, most)
			}
		}
	})
}

// handling returns a worker with one handler for task.
func (r *rig) handling(f func(context.Context, *worker.Job[task]) error, change ...func(*worker.Config)) *worker.Worker {
	r.t.Helper()
	w := r.worker(change...)
	worker.Handle(w, f)
	return w
}

func TestALimitIsReachedAndNotPassed(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		l, g := newLedger(), newGate()
		r.start(func(ctx context.Context, j *worker.Job[task]) error {
			defer l.enter(&j.Row, j.Args.N)()
			return g.handle(ctx, j)
		}, func(c *worker.Config) { c.Queues[0].Slots = 10 })
		for n := range 12 {
			r.add(task{N: n}, keyed(job.Limit("l", 3)))
		}
		for range 3 {
			receive(t, g.started, "start")
		}
		r.await("the others wait for the key", func() bool { return r.count("SELECT count(*) FROM %s.live WHERE state = 2") == 9 })
		close(g.free)
		r.rests()
		if most := l.highest("l"); most != 3 {
			t.Errorf("%d at once, limit 3", most)
		}
	})
}

func TestAJobOfSeveralKeysHoldsThemAllOrNone(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		l := newLedger()
		pairs := [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}}
		for n := range 18 {
			p := pairs[n%3]
			if n%2 == 0 {
				p[0], p[1] = p[1], p[0]
			}
			r.add(task{N: n}, keyed(job.Mutex(p[0]), job.Mutex(p[1])))
			r.add(task{N: n}, keyed(job.Mutex(p[0])))
		}
		r.start(l.mutexed)
		r.rests()
		for _, key := range []string{"a", "b", "c"} {
			if most := l.highest(key); most != 1 {
				t.Errorf("%s: %d at once", key, most)
			}
		}
	})
}

func TestARetryGoesToTheEndOfItsLine(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		l := newLedger()
		for n := range 4 {
			r.add(task{N: n}, keyed(job.Mutex("k")))
		}
		r.start(func(ctx context.Context, j *worker.Job[task]) error {
			defer l.enter(&j.Row, j.Args.N)()
			if j.Args.N == 0 && j.Attempt == 1 {
				return job.RetryIn(time.Millisecond, errors.New("not yet"))
			}
			<-time.After(5 * time.Millisecond)
			return nil
		})
		r.rests()
		if got, want := l.order("k"), []int{0, 1, 2, 3, 0}; !slices.Equal(got, want) {
			t.Errorf("started %v, want %v", got, want)
		}
	})
}

func TestAReleaseKeepsItsPlace(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		g := newGate()
		closing := r.start(g.handle, func(c *worker.Config) { c.Grace = 10 * time.Millisecond })
		for n := range 3 {
			r.add(task{N: n}, keyed(job.Mutex("k")))
		}
		receive(t, g.started, "start")
		r.await("two wait", func() bool { return r.count("SELECT count(*) FROM %s.live WHERE state = 2") == 2 })
		if err := closing.close(); err != nil {
			t.Fatal(err)
		}
		l := newLedger()
		r.start(l.mutexed)
		r.rests()
		if got, want := l.order("k"), []int{0, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("started %v, want %v", got, want)
		}
	})
}

func TestACancelledHolderOrWaiterPassesTheKeyOn(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		g := newGate()
		r.start(g.handle)
		holder := r.add(task{N: 1}, keyed(job.Mutex("a")))
		receive(t, g.started, "start")
		waiter := r.add(task{N: 2}, keyed(job.Mutex("a"), job.Mutex("b")))
		r.reaches(waiter, job.Blocked)
		third := r.add(task{N: 3}, keyed(job.Mutex("b")))
		r.reaches(third, job.Blocked) // the waiter stands before it in the line of b
		if err := r.Cancel(t.Context(), waiter); err != nil {
			t.Fatal(err)
		}
		if row := receive(t, g.started, "start of what waited for the waiter"); row.ID != third {
			t.Errorf("%v started", row.ID)
		}
		next := r.add(task{N: 4}, keyed(job.Mutex("a")))
		r.reaches(next, job.Blocked)
		if err := r.Cancel(t.Context(), holder); err != nil {
			t.Fatal(err)
		}
		if row := receive(t, g.started, "start of what waited for the holder"); row.ID != next {
			t.Errorf("%v started", row.ID)
		}
		close(g.free)
		r.rests()
	})
}

func TestALimitThatChangesActsOnWhatIsThere(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		g := newGate()
		r.start(g.handle, func(c *worker.Config) { c.Queues[0].Slots = 10 })
		for n := range 8 {
			r.add(task{N: n}, keyed(job.Limit("tenant:7", 1)))
		}
		receive(t, g.started, "start")
		r.await("the others wait", func() bool { return r.count("SELECT count(*) FROM %s.live WHERE state = 2") == 7 })
		r.limit("tenant:*", 3)
		for range 2 {
			receive(t, g.started, "start after the limit was raised")
		}
		r.limit("tenant:*", 1)
		g.free <- struct{}{}
		g.free <- struct{}{}
		r.await("two ended", func() bool { return r.count("SELECT count(*) FROM %s.live") == 6 })
		select {
		case row := <-g.started:
			t.Errorf("%v started with one holder left and a limit of 1", row.ID)
		case <-time.After(100 * time.Millisecond):
		}
		close(g.free)
		r.rests()
	})
}

// limit writes an entry of the limits.
func (r *rig) limit(key string, n int) {
	r.t.Helper()
	prefix, isPrefix := strings.CutSuffix(key, "*")
	if err := r.SetLimit(r.t.Context(), client.Limit{Key: prefix, Prefix: isPrefix, N: n}, false); err != nil {
		r.t.Fatal(err)
	}
}

func TestBlockedJobsAreTold(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		g := newGate()
		u := r.start(g.handle)
		events, stop := u.Events(100)
		defer stop()
		r.add(task{}, keyed(job.Mutex("k")))
		receive(t, g.started, "start")
		id := r.add(task{N: 1}, keyed(job.Mutex("k")))
		for {
			if e := receive(t, events, "event"); e.Type == worker.EventBlocked {
				if e.Row.ID != id || e.Key != "k" || e.Next.State != job.Blocked {
					t.Errorf("event %+v", e)
				}
				break
			}
		}
		close(g.free)
		r.await("both are counted", func() bool { s := u.Stats(); return s.Completed == 2 && s.Running == 0 })
		if u.Stats().Blocked < 1 {
			t.Error("nothing was blocked")
		}
	})
}

func TestFinishTxPassesTheKeyOnAfterTheCommit(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		r.withEffects()
		var ids []job.ID
		for n := range 10 {
			ids = append(ids, r.add(task{N: n}, keyed(job.Mutex("k"))))
		}
		for _, id := range ids {
			r.reaches(id, job.Completed)
		}
		r.rests()
	})
}

func TestADrainEndsJobsThatShareAKey(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		l := newLedger()
		for n := range 20 {
			r.add(task{N: n}, keyed(job.Mutex(fmt.Sprint("k", n%2)), job.Rate("r", 1000, time.Second)))
		}
		w := r.handling(l.mutexed)
		got, err := w.Drain(t.Context(), worker.DrainOptions{})
		if err != nil || got.Completed != 20 {
			t.Errorf("drained %+v, %v", got, err)
		}
		r.rests()
	})
}

func TestABetterPriorityComesBeforeAChain(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		l, g, before := newLedger(), newGate(), make(chan int, 1)
		const waiters, kept = 10_000, 60
		specs := make([]job.Spec, waiters)
		for n := range specs {
			specs[n] = job.Spec{Args: task{N: n}, Options: job.Options{Priority: 9, Keys: []job.Key{job.Mutex("chain")}}}
		}
		chain, err := r.EnqueueMany(t.Context(), specs)
		if err != nil {
			t.Fatal(err)
		}
		r.start(func(ctx context.Context, j *worker.Job[task]) error {
			switch j.Args.N {
			case 10:
				l.enter(&j.Row, j.Args.N)
				return g.handle(ctx, j)
			case waiters:
				before <- len(l.order("chain"))
			default:
				l.enter(&j.Row, j.Args.N)
			}
			return nil
		}, func(c *worker.Config) { c.Queues[0].Slots = 1 })
		receive(t, g.started, "start")
		r.add(task{N: waiters}, job.Options{Priority: 1, Keys: []job.Key{job.Mutex("other")}})
		close(g.free)
		if n := receive(t, before, "start"); n > 11 {
			t.Errorf("%d of the chain started before it, where 11 had", n)
		}
		rest := make([]job.ID, 0, waiters)
		for _, e := range chain[kept:] { // so many one after the other are another test
			rest = append(rest, e.ID)
		}
		if err := r.Cancel(t.Context(), rest...); err != nil {
			t.Fatal(err)
		}
		r.rests()
		if got := l.order("chain"); !slices.IsSorted(got) {
			t.Errorf("started %v", got)
		}
	})
}

func TestAHotKeyCostsOneStatementAJob(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	const jobs = 100
	specs := make([]job.Spec, jobs)
	for n := range specs {
		specs[n] = job.Spec{Args: task{N: n}, Options: keyed(job.Mutex("hot"))}
	}
	if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	u := r.start(func(context.Context, *worker.Job[task]) error { return nil })
	r.rests()
	if s := u.Stats(); s.HandedOver < jobs*9/10 || s.Claims+s.Admits+s.Passes > jobs/4 {
		t.Errorf("of %d jobs %d were handed over, with %d claims, %d admits and %d passes", jobs, s.HandedOver, s.Claims, s.Admits, s.Passes)
	}
}
