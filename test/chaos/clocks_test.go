//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

// errShift reports that the clock of a single process cannot be set off here.
var errShift = errors.New("the clock of one process cannot be shifted")

// clocks says whose wall clock is ahead of the machine's, which is that of Postgres and of the test.
type clocks struct {
	worker, producer, sweeper, redis time.Duration
	isSet                            bool // that of Redis is set while it runs: an hour on, two hours back, and right again
}

// Each process has its own clock, and one is an hour off: a worker, a producer, a sweeper or Redis, each beside one whose clock
// is right; and the clock of Redis is set while it serves. Jobs start as promptly as ever (while the clock of Redis is set: within a poll,
// and hints come back) and none before its time, what expires or times out later does neither now, no key has more holders than its limit, and a dead process' jobs run again in
// time, while no living one is called dead. Short: all processes of a way at once, instead of each alone.
func TestAClockThatIsAnHourOffChangesNothing(t *testing.T) {
	t.Parallel()
	const h = time.Hour
	for name, c := range pick(map[string]clocks{
		"a worker, a producer and the sweeper are slow": {worker: -h, producer: -h, sweeper: -h},
		"a worker, a producer and the sweeper are fast": {worker: h, producer: h, sweeper: h},
		"Redis is slow":             {redis: -h},
		"Redis is fast":             {redis: h},
		"the clock of Redis is set": {isSet: true},
	}, map[string]clocks{
		"a worker is slow": {worker: -h}, "a worker is fast": {worker: h},
		"a producer is slow": {producer: -h}, "a producer is fast": {producer: h},
		"the sweeper is slow": {sweeper: -h}, "the sweeper is fast": {sweeper: h},
		"Redis is slow": {redis: -h}, "Redis is fast": {redis: h},
		"the clock of Redis is set": {isSet: true},
		"all but Redis are fast":    {worker: h, producer: h, sweeper: h, redis: -h},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			set := r.timedRedis(c)
			sweeper := r.shifted(spec{Role: "sweeper", Name: "sweeper", Shift: c.sweeper})
			sweeper.awaitTrust()
			victim := r.worker("victim", slots(5))
			gate, open := r.gate()
			held := r.enqueueMany(5, work{Gate: gate}, job.Options{MaxAttempts: 1})
			r.awaitEvents(20*time.Second, len(held), started, "victim")
			r.shifted(spec{Role: "worker", Name: "other", Shift: c.worker, Queues: map[string]int{"default": 20}}).awaitSession()
			r.worker("right", slots(20))

			began := time.Now()
			load := []*process{
				r.shifted(spec{Role: "producer", Name: "producer-other", Shift: c.producer, Rate: 60, Mix: true, Job: work{For: 5 * time.Millisecond}}),
				r.start(spec{Role: "producer", Name: "producer-right", Rate: 60, Mix: true, Job: work{For: 5 * time.Millisecond}}),
			}
			r.enqueueMany(20, work{For: 300 * time.Millisecond}, job.Options{ExpiresIn: time.Minute, Timeout: 20 * time.Second, MaxAttempts: 1})
			pause(pick(2*time.Second, 10*time.Second))
			set()
			killed := time.Now()
			victim.kill()
			r.starts(held, 2)
			took := time.Since(killed)
			if most := recoverBound(sweeper); took > most {
				t.Errorf("the jobs of a dead process ran again after %v, at most %v", took, most)
			}
			for _, p := range load {
				p.stop()
			}
			open()
			r.awaitEmpty(20 * time.Second)
			if c.isSet {
				r.awaitHints(time.Now())
				r.awaitEmpty(20 * time.Second)
			}
			r.check(audit{starts: 3, attempts: 2})
			runs, limit := r.keyRuns()
			r.checkHolders(endedWith(runs, "victim", killed), limit)
			late := r.lateness(began, killed.Add(-time.Second))
			t.Logf("%d jobs started %v after their time at the median, p99 %v, worst %v; %d runs of jobs with keys; those of the dead one ran again after %v",
				len(late), quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1), len(runs), took)
			share, most := 0.99, 500*time.Millisecond+crowd()/4
			if c.isSet { // what Redis knows of idle workers has expired: they poll, and are known again
				share, most = 1, pollAlone+time.Second+crowd()
			}
			if worst := quantile(late, share); worst > most {
				t.Errorf("of %d jobs without keys one started %v after its time (quantile %v), at most %v", len(late), worst, share, most)
			}
			if least := pick(10, 50); len(late) < least { // a busy machine brings fewer in the time there is
				t.Errorf("only %d jobs without keys were looked at, at least %d", len(late), least)
			}
			if n := r.count("SELECT count(*) FROM weir.sessions WHERE dead_at IS NOT NULL AND state <> 'draining' AND version <> 'victim'"); n != 0 {
				t.Errorf("%d living processes were called dead", n)
			}
		})
	}
}

// shifted starts a process whose clock may be off.
func (r *rig) shifted(s spec) *process {
	r.t.Helper()
	p, err := r.spawn(r.filled(s), nil)
	r.ableTo(err)
	r.t.Cleanup(p.end)
	return p
}

// ableTo skips the test where the clock of a process cannot be shifted.
func (r *rig) ableTo(err error) {
	r.t.Helper()
	if errors.Is(err, errShift) {
		r.t.Skip("NOT RUN: ", err)
	}
	must(r.t, err)
}

// timedRedis gives the rig a Redis whose clock is off, or can be set. set does so, in three steps.
func (r *rig) timedRedis(c clocks) (set func()) {
	r.t.Helper()
	if c.redis == 0 && !c.isSet {
		return func() {}
	}
	privateRedis()(r)
	r.redisURL = r.redis.URL()
	r.client = r.clientOn(r.pool)
	rdb := testenv.Client(r.t, r.redisURL)
	turn := func(off time.Duration) {
		r.t.Helper()
		var err error
		for range 20 { // it may stand where it must not
			must(r.t, r.redis.Pause())
			err = shiftStopped(r.redis.PID(), off)
			must(r.t, r.redis.Resume())
			if err == nil {
				break
			}
		}
		r.ableTo(err)
		at, err := rdb.Time(context.Background()).Result()
		must(r.t, err)
		if got := time.Until(at); (got - off).Abs() > time.Minute {
			r.t.Fatalf("the clock of Redis is %v ahead, want %v", got, off)
		}
	}
	turn(c.redis)
	return func() {
		if !c.isSet {
			return
		}
		for _, off := range []time.Duration{time.Hour, -time.Hour, 0} {
			turn(off)
			pause(pick(time.Second, 10*time.Second))
		}
	}
}

// lateness returns how long after their time jobs without keys started for the first time, of those due in a span.
func (r *rig) lateness(from, to time.Time) (out []time.Duration) {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), r.in(`SELECT id, coalesce(scheduled_at, enqueued_at) FROM weir.jobs
		WHERE keys IS NULL AND coalesce(scheduled_at, enqueued_at) BETWEEN $1 AND $2`), from, to)
	must(r.t, err)
	starts := readLedgers(r.t, r.dir).of(started).byID()
	for rows.Next() {
		var (
			id job.ID
			at time.Time
		)
		must(r.t, rows.Scan((*[16]byte)(&id), &at))
		if list := starts[id]; len(list) > 0 {
			out = append(out, list[0].At.Sub(at))
		}
	}
	must(r.t, rows.Err())
	return out
}
