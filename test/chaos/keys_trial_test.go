//go:build unix

package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

var seed = flag.Uint64("seed", 0, "run the trials of keys with this seed alone; 0: with some that are printed")

// seeds returns n of them, those of -seed if it is given.
func seeds(n int) []uint64 {
	if *seed != 0 {
		return []uint64{*seed}
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = rand.Uint64()>>1 + 1
	}
	return out
}

// trial is a deployment whose jobs have keys, under faults. All it does by chance comes from its seed; what the machine does
// meanwhile does not.
type trial struct {
	*rig
	seed     uint64
	rdb      redis.UniversalClient
	link     *testenv.Proxy // to Redis, of one worker alone; nil: there is none
	sweepers []*process
	locks    map[string]int // the limit of each key
	jobs     func(rng *rand.Rand, t *trial) (keyed, job.Options)
	span     time.Duration   // how long jobs come
	over     context.Context // ends with the span
	enough   func()          // ends it

	mu      sync.Mutex
	limits  []limitSet
	workers []*process // those that run
	exits   map[string]time.Time
	hired   int
	stopped bool // no new ones
	wg      sync.WaitGroup
}

// trialLease is that of all processes in a trial.
const trialLease = 3 * time.Second

// limitSet is a change of all keys' limits while jobs run.
type limitSet struct {
	at time.Time // from when on claims keep to it
	n  int
}

// dice returns the source of chance for one part of the trial.
func (t *trial) dice(part string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(part))
	return rand.New(rand.NewPCG(t.seed, h.Sum64()))
}

// newTrial makes a deployment with a Redis of its own, and a Postgres of its own if that is among the options.
func newTrial(t *testing.T, seed uint64, options ...func(*rig)) *trial {
	t.Helper()
	t.Logf("seed %d: go test ./test/chaos -run '^%s$' -seed %d", seed, strings.Split(t.Name(), "/")[0], seed)
	tr := &trial{
		rig: newRig(t, append(options, privateRedis())...), seed: seed,
		locks: map[string]int{}, exits: map[string]time.Time{}, span: pick(5*time.Second, 15*time.Second), jobs: mixed,
	}
	tr.bookOf()
	tr.rdb = testenv.Client(t, tr.redisURL)
	for i, n := range []int{1, 1, 1, 2, 3, 5} {
		tr.locks[fmt.Sprintf("key:%d", i)] = n
	}
	t.Cleanup(tr.end)
	return tr
}

// guard starts two sweepers and waits until they trust themselves.
func (t *trial) guard() {
	t.t.Helper()
	for i := range 2 {
		t.sweepers = append(t.sweepers, t.start(spec{Role: "sweeper", Name: fmt.Sprint("sweeper", i), Lease: trialLease}))
	}
	for _, p := range t.sweepers {
		testenv.Eventually(t.t, trialLease+20*time.Second, func() bool { return p.logged("sweeper trusts itself") > 0 },
			"%s does not trust itself", p.name)
	}
}

// staff starts two sweepers and three workers.
func (t *trial) staff() {
	t.t.Helper()
	t.guard()
	for i := range 3 {
		t.hire(fmt.Sprint("worker", i))
	}
}

// hire starts a worker that is replaced when it dies.
func (t *trial) hire(name string, more ...func(*spec)) {
	t.wg.Go(func() {
		for {
			t.mu.Lock()
			if t.stopped {
				t.mu.Unlock()
				return
			}
			t.hired++
			s := spec{
				Role: "worker", Name: fmt.Sprintf("%s-%d", name, t.hired), Postgres: t.url, Redis: t.redisURL, Namespace: t.namespace,
				Dir: t.dir, Queues: map[string]int{"default": 8}, Lease: trialLease, Book: t.url,
				// Short, so that what is told to end leaves handlers behind that do not listen.
				Grace: 30 * time.Millisecond, ExitsBy: time.Second,
			}
			for _, f := range more {
				f(&s)
			}
			p, err := t.spawn(s, nil)
			if err != nil {
				t.t.Errorf("start %s: %v", s.Name, err)
				t.mu.Unlock()
				return
			}
			t.workers = append(t.workers, p)
			t.mu.Unlock()
			<-p.done
			t.mu.Lock()
			t.exits[p.name] = time.Now()
			t.workers = slices.DeleteFunc(t.workers, func(o *process) bool { return o == p })
			t.mu.Unlock()
			if text := p.text(); t.t.Failed() {
				t.t.Logf("log of %s:\n%s", p.name, text[max(0, len(text)-2000):])
			}
		}
	})
}

// some returns one of the workers that run; nil if there is none.
func (t *trial) some(rng *rand.Rand) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.workers) == 0 {
		return nil
	}
	return t.workers[rng.IntN(len(t.workers))]
}

// signals sends a signal to a worker that may have ended.
func (t *trial) signals(p *process, s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (t *trial) end() {
	t.mu.Lock()
	t.stopped = true
	all := slices.Clone(t.workers)
	t.mu.Unlock()
	for _, p := range all {
		p.end()
	}
	t.wg.Wait()
}

// wait returns after d, or sooner when no more jobs come.
func (t *trial) wait(d time.Duration) (goOn bool) {
	select {
	case <-time.After(d):
		return true
	case <-t.over.Done():
		return false
	}
}

// between returns a time of lo to hi.
func between(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(rng.Int64N(int64(hi-lo)))
}

// mixed is the usual job: short, of one key, sometimes of several; some end in other ways than by success, a few are long
// or do not listen.
func mixed(rng *rand.Rand, t *trial) (keyed, job.Options) {
	args := keyed{For: between(rng, 0, 30*time.Millisecond)}
	names := make([]string, 0, len(t.locks))
	for name := range t.locks {
		names = append(names, name)
	}
	slices.Sort(names)
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	args.Keys = names[:1]
	if rng.IntN(8) == 0 {
		args.Keys = names[:2+rng.IntN(2)]
	}
	switch rng.IntN(40) {
	case 0:
		args.Do = doDeaf
		args.For = between(rng, 50*time.Millisecond, 300*time.Millisecond)
	case 1, 2:
		args.Do = doRetry
	case 3:
		args.Do = doSnooze
	case 4, 5, 6:
		args.Do = doFinishTx
	case 7:
		args.Do = doRelease
	case 8:
		args.Do = doBreak
	}
	return args, job.Options{Keys: t.keysOf(args.Keys), Backoff: job.Fixed(100 * time.Millisecond)}
}

// leisurely is mixed with longer jobs.
func leisurely(rng *rand.Rand, t *trial) (keyed, job.Options) {
	args, options := mixed(rng, t)
	args.For = between(rng, 50*time.Millisecond, 300*time.Millisecond)
	return args, options
}

// keyless is mixed without the keys.
func keyless(rng *rand.Rand, t *trial) (keyed, job.Options) {
	args, options := mixed(rng, t)
	options.Keys = nil
	return args, options
}

func (t *trial) keysOf(names []string) []job.Key {
	var out []job.Key
	for _, name := range names {
		out = append(out, job.Limit(name, t.locks[name]))
	}
	return out
}

// producers is how many there are.
const producers = 6

// produce enqueues jobs until no more are to come, first some at once, then dozens a second.
func (t *trial) produce(name string) {
	rng := t.dice(name)
	for i := 0; i < 30 || t.wait(between(rng, 10*time.Millisecond, 60*time.Millisecond)); i++ {
		args, options := t.jobs(rng, t)
		e, err := t.client.Enqueue(context.Background(), args, options)
		if err != nil {
			t.t.Errorf("enqueue: %v", err)
			return
		}
		t.ledger.note(event{What: acked, ID: e.ID})
	}
}

// load lets jobs come and faults happen, and returns when both are over.
func (t *trial) load(faults ...fault) {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.t.Context(), t.span)
	defer cancel()
	t.over, t.enough = ctx, cancel
	for _, f := range faults {
		if f.prepare != nil {
			f.prepare(t)
		}
	}
	var wg sync.WaitGroup
	for i := range producers {
		wg.Go(func() { t.produce(fmt.Sprint("producer", i)) })
	}
	for _, f := range faults {
		wg.Go(func() { f.begin(t) })
	}
	wg.Wait()
}

// run is load; then it waits until all is done and compares.
func (t *trial) run(faults ...fault) {
	t.t.Helper()
	t.load(faults...)
	t.awaitDone()
	t.atRest()
	t.judge()
}

// awaitDone waits until no job is live, however slow the machine is, as long as one ends now and then. A second death puts a
// job off for 15 s, and leases may have to end before that.
func (t *trial) awaitDone() {
	t.t.Helper()
	const stall = 15*time.Second + 5*trialLease + 15*time.Second
	n, since := -1, time.Now()
	testenv.Eventually(t.t, 10*time.Minute, func() bool {
		now := t.count("SELECT count(*) FROM weir.live")
		if now != n {
			n, since = now, time.Now()
		}
		if time.Since(since) > stall {
			t.t.Fatalf("no job has ended for %v: %s", stall, t.left())
		}
		return n == 0
	}, "jobs are still live: %v", lazily(t.left))
}

// judge compares the book and the ledgers with the queue.
func (t *trial) judge() {
	t.t.Helper()
	t.mu.Lock()
	exits := t.exits
	t.mu.Unlock()
	runs := t.runs(exits)
	t.t.Logf("%d claims; held for: %s", len(runs), held(runs))
	t.checkHolders(runs, t.limitAt)
	t.checkFences(runs)
	killed := ask[int](t.rig, "SELECT count(*) FROM weir.dead WHERE error = 'its process died 3 times'")
	t.check(audit{starts: 30, attempts: 30, dead: killed})
	t.checkDeadlocks()
}

// ownPostgres is a server on which a deadlock is found at once, and counted.
func ownPostgres() func(*rig) {
	return privatePostgres("fsync", "off", "deadlock_timeout", "50ms", "max_connections", "400")
}

// checkDeadlocks: two statements never wait for each other.
func (r *rig) checkDeadlocks() {
	r.t.Helper()
	if r.postgres == nil {
		return // others use the server too
	}
	if n := r.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		r.t.Errorf("the server counts %d deadlocks", n)
	}
}

// limitAt is the limit of a key for a claim of a time.
func (t *trial) limitAt(key string, claimed time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.locks[key]
	for _, s := range t.limits {
		if !claimed.Before(s.at) {
			n = s.n
		}
	}
	return n
}

// atRest: no lock row, no wait and no member in Redis outlives the jobs for longer than a look of the sweeper and a lease.
func (t *trial) atRest() {
	t.t.Helper()
	testenv.Eventually(t.t, 2*trialLease+10*time.Second, func() bool {
		return t.count("SELECT (SELECT count(*) FROM weir.locks) + (SELECT count(*) FROM weir.waits)") == 0
	}, "lock rows or waits are left")
	var left []string
	testenv.Eventually(t.t, 2*trialLease+10*time.Second, func() bool {
		left = t.members()
		return len(left) == 0
	}, "members are left in Redis: %v", &left)
}

// members returns all sorted sets of the namespace with what is in them, but those of idle workers.
func (t *trial) members() []string {
	t.t.Helper()
	var out []string
	names := t.rdb.Scan(t.t.Context(), 0, "*"+t.namespace+"*", 1000).Iterator()
	for names.Next(t.t.Context()) {
		if name := names.Val(); !strings.Contains(name, ":idle:") {
			list, _ := t.rdb.ZRangeWithScores(t.t.Context(), name, 0, -1).Result()
			out = append(out, fmt.Sprintf("%q: %v", name, list))
		}
	}
	if err := names.Err(); err != nil {
		return []string{err.Error()}
	}
	return out
}

// dump writes what Redis holds to its disk; recall makes it start again with that.
func (t *trial) dump() error { return t.rdb.Save(context.Background()).Err() }

func (t *trial) recall() error {
	if err := t.redis.Kill(); err != nil {
		return err
	}
	return t.redis.Restart(context.Background())
}

// forget makes Redis start again with nothing.
func (t *trial) forget() error {
	if dir, err := t.rdb.ConfigGet(context.Background(), "dir").Result(); err == nil {
		_ = os.Remove(dir["dir"] + "/dump.rdb") // of an earlier dump
	}
	return t.recall()
}
