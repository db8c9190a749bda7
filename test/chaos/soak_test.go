//go:build unix

package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/testenv"
)

var soakFor = flag.Duration("soak", 0, "how long TestSoak puts a deployment under faults; 0: 12s, or 30m with -long")

// soak is a deployment under faults of all kinds, chosen by chance. Some processes are never replaced: what they use and
// what the servers hold for them is measured all the while.
type soak struct {
	*rig
	rdb  redis.UniversalClient // past the proxy
	link *testenv.Proxy        // to Redis, for all processes

	lasting   []*process // a sweeper and a worker that are never replaced
	producers []*process // nor are these
	fickle    *crew
	over      context.Context

	mu     sync.Mutex
	faults map[string]int
}

// Faults of all kinds at random, for a long time, under load: the ledger is clean at the end, and nothing has grown: neither
// the processes that lived through it, nor what Redis holds, nor the tables of jobs that have not ended. Whether something
// grows is judged with -long alone.
// Short: 12 s of 200 jobs a second instead of 30 minutes of 1,000.
func TestSoak(t *testing.T) {
	t.Parallel()
	span := *soakFor
	if span == 0 {
		span = pick(12*time.Second, 30*time.Minute)
	}
	s := newSoak(t)
	dice := seeds(1)[0]
	t.Logf("seed %d: go test ./test/chaos -run TestSoak -seed %[1]d", dice)
	began := time.Now()
	var stop context.CancelFunc
	s.over, stop = context.WithTimeout(context.Background(), span)
	defer stop()
	var wg sync.WaitGroup
	for i, group := range []mishaps{s.toProcesses(), s.toRedis(), s.toPostgres()} {
		wg.Go(func() { s.disturb(rand.New(rand.NewPCG(dice, uint64(i))), group) })
	}
	seen := s.sample(min(10*time.Second, max(span/20, time.Second)))
	wg.Wait()
	for _, p := range s.producers {
		p.stop()
	}
	took := time.Since(began)
	s.awaitEmpty(pick(time.Minute, 10*time.Minute))
	testenv.Eventually(t, 4*lease()+20*time.Second+crowd(), func() bool {
		return s.count("SELECT (SELECT count(*) FROM weir.locks) + (SELECT count(*) FROM weir.waits)") == 0
	}, "lock rows or waits are left")
	t.Logf("%d jobs in %v, %.0f/s; %d processes died; faults: %v", s.count("SELECT count(*) FROM weir.jobs"), took,
		float64(s.count("SELECT count(*) FROM weir.jobs"))/took.Seconds(), s.fickle.died(), s.faults)
	t.Logf("medians of the thirds of the time, and samples from all of it:\n%s", seen)
	s.stillRun(s.lasting...)
	again := s.check(audit{starts: 30, attempts: 2, dead: s.count("SELECT count(*) FROM weir.dead WHERE error = 'its process died 3 times'")})
	t.Logf("%d starts beyond the first of each job; a tenth of the jobs has two attempts", again)
	s.checkDeadlocks()
	if *long {
		for _, fault := range seen.grown() {
			t.Error(fault)
		}
	}
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	// Vacuum each ten seconds instead of each minute: the tables come to their full size sooner, and it is a smaller one.
	s := &soak{rig: newRig(t, privatePostgres("autovacuum_naptime", "10s"), privateRedis()), faults: map[string]int{}}
	s.rdb = testenv.Client(t, s.redisURL)
	s.link = testenv.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", s.redis.Port()))
	s.redisURL = s.link.Through(t, s.redisURL)
	measured := func(more spec) *process {
		more.Gauge = true
		return s.start(more)
	}
	sweeper := measured(spec{Role: "sweeper", Name: "sweeper"})
	worker := measured(spec{Role: "worker", Name: "steady", Queues: map[string]int{"default": 50}})
	s.fickle = s.keep(
		spec{Role: "worker", Name: "fickle0", Queues: map[string]int{"default": 30}},
		spec{Role: "worker", Name: "fickle1", Queues: map[string]int{"default": 30}},
		spec{Role: "sweeper", Name: "sweeper-fickle"},
	)
	worker.awaitSession()
	sweeper.awaitTrust()
	for i := range 2 {
		s.producers = append(s.producers, measured(spec{
			Role: "producer", Name: fmt.Sprint("producer", i), Rate: pick(100, 500), Mix: true, Job: work{For: 2 * time.Millisecond},
		}))
	}
	s.lasting = []*process{sweeper, worker}
	return s
}

// mishaps are faults of which one comes after the other, with a time of up to so much between them.
type mishaps struct {
	apart time.Duration
	list  []mishap
}

// mishap is one fault; it returns with all well again. Its weight is how often it is chosen, beside the others.
type mishap struct {
	name   string
	weight int
	do     func(rng *rand.Rand)
}

// disturb lets one mishap follow the other until the time is over.
func (s *soak) disturb(rng *rand.Rand, group mishaps) {
	all := 0
	for _, m := range group.list {
		all += m.weight
	}
	for s.wait(between(rng, group.apart/10, group.apart)) {
		n := rng.IntN(all)
		for _, m := range group.list {
			if n -= m.weight; n < 0 {
				m.do(rng)
				s.mu.Lock()
				s.faults[m.name]++
				s.mu.Unlock()
				break
			}
		}
	}
}

// wait returns after d, or sooner when the time is over.
func (s *soak) wait(d time.Duration) (goOn bool) {
	select {
	case <-time.After(d):
		return true
	case <-s.over.Done():
		return false
	}
}

// victim returns one of those that are replaced when they die; nil if none runs just now.
func (s *soak) victim(rng *rand.Rand) *process {
	list := s.fickle.alive()
	if len(list) == 0 {
		return nil
	}
	return list[rng.IntN(len(list))]
}

func (s *soak) toProcesses() mishaps {
	send := func(signal syscall.Signal) func(*rand.Rand) {
		return func(rng *rand.Rand) {
			if p := s.victim(rng); p != nil {
				_ = p.cmd.Process.Signal(signal) // it may have ended meanwhile
			}
		}
	}
	freeze := func(p *process, d time.Duration) {
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		s.wait(d)
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
	}
	return mishaps{pick(time.Second, 8*time.Second), []mishap{
		{"killed", 4, send(syscall.SIGKILL)},
		{"told to end", 2, send(syscall.SIGTERM)},
		{"frozen", 2, func(rng *rand.Rand) {
			if p := s.victim(rng); p != nil {
				freeze(p, between(rng, 100*time.Millisecond, lease()+2*time.Second))
			}
		}},
		{"frozen, to be measured on", 2, func(rng *rand.Rand) {
			freeze(s.lasting[rng.IntN(len(s.lasting))], between(rng, 100*time.Millisecond, lease()+2*time.Second))
		}},
	}}
}

func (s *soak) report(what string, err error) {
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
}

func (s *soak) toRedis() mishaps {
	return mishaps{pick(2*time.Second, 20*time.Second), []mishap{
		{"FLUSHALL", 3, func(*rand.Rand) { s.report("flush Redis", s.rdb.FlushAll(context.Background()).Err()) }},
		{"Redis restarted", 2, func(*rand.Rand) { s.report("restart Redis", s.redis.Restart(context.Background())) }},
		{"Redis half-open", 3, func(rng *rand.Rand) {
			s.link.Silence(true)
			s.wait(between(rng, 500*time.Millisecond, 4*time.Second))
			s.link.Silence(false)
		}},
		{"Redis refuses", 2, func(rng *rand.Rand) {
			s.link.Shut()
			s.wait(between(rng, 500*time.Millisecond, 4*time.Second))
			s.link.Open()
		}},
	}}
}

// toPostgres comes now and then: a server that is restarted every few seconds does no autovacuum, and its tables grow by that.
func (s *soak) toPostgres() mishaps {
	return mishaps{pick(8*time.Second, 4*time.Minute), []mishap{
		{"Postgres restarted", 1, func(*rand.Rand) { s.report("restart Postgres", s.postgres.Restart(context.Background())) }},
		{"Postgres killed", 1, func(rng *rand.Rand) {
			s.report("kill Postgres", s.postgres.Kill())
			s.wait(between(rng, 100*time.Millisecond, 2*time.Second))
			s.report("restart Postgres", s.postgres.Restart(context.Background()))
		}},
	}}
}
