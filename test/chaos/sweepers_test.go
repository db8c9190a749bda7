//go:build unix

package chaos_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Any number of sweepers recover each job once; one that stands still, or dies, stops none of the others. In one round
// after the other a worker with 20 jobs is killed: with two sweepers, with three of which one is frozen, and after one
// was killed. Short: a lease of 4 s.
func TestSeveralSweepersRecoverEachJobOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, privatePostgres("fsync", "off"))
	one, two := r.sweeper("sweeper1"), r.sweeper("sweeper2")
	three := r.sweeper("sweeper3")
	for i, harm := range []func(){
		func() {},
		func() { three.signal(syscall.SIGSTOP) },
		func() { one.kill() },
	} {
		harm()
		gate, open := r.gate()
		victim := r.worker(fmt.Sprintf("victim%d", i), slots(20))
		r.enqueueMany(20, work{Gate: gate}, job.Options{MaxAttempts: 1})
		r.awaitEvents(10*time.Second, 20, started, victim.name)
		victim.kill()
		killed := time.Now()
		other := r.worker(fmt.Sprintf("other%d", i), slots(20))
		again := r.awaitEvents(4*lease(), 20, started, other.name)
		if took, most := again.last().Sub(killed), recoverBound(two); took > most {
			t.Errorf("round %d: they ran again after %v, at most %v", i, took, most)
		}
		for _, e := range again {
			if e.Crashes != 1 || e.Attempt != 1 {
				t.Errorf("round %d: job %s counts %d crashes and attempt %d, want 1 and 1", i, e.ID, e.Crashes, e.Attempt)
			}
		}
		open()
		r.awaitEmpty(10 * time.Second)
		other.stop()
	}
	three.signal(syscall.SIGCONT)
	// It was given up as dead, and must not give up others on what it knew before.
	w := r.worker("last")
	r.enqueue(work{For: 2 * lease()})
	r.awaitEmpty(4 * lease())
	if !w.isRunning() || r.sessionOf("last") == "" {
		t.Error("a living worker was called dead")
	}
	r.check(audit{starts: 2})
	if n := two.logged("40P01") + three.logged("40P01"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	if n := r.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("the server counts %d deadlocks", n)
	}
}

// Without a sweeper jobs flow by hints and polls; what a dead process held waits for one, and is lost to nobody.
func TestWithoutASweeperJobsFlowAndRecoveryWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutRedis())
	victim := r.worker("victim")
	gate, open := r.gate()
	r.enqueueMany(5, work{Gate: gate})
	r.awaitEvents(pollAlone+2*time.Second, 5, started)
	victim.kill()
	r.worker("other")
	for range 3 {
		sent := time.Now()
		id := r.enqueue(work{})
		testenv.Eventually(t, pollAlone+5*time.Second+crowd(), func() bool {
			return len(readLedgers(t, r.dir).of(started, "other").byID()[id]) == 1
		}, "a job does not start")
		if took := readLedgers(t, r.dir).of(started).byID()[id].last().Sub(sent); took > pollAlone+time.Second+crowd()/4 {
			t.Errorf("a job started %v after it was enqueued, at most a poll and a second (I6)", took)
		}
	}
	pause(lease())
	if n := r.count("SELECT count(*) FROM weir.live WHERE state = 1"); n != 5 {
		t.Errorf("%d jobs are running by the database's account, want the 5 of the dead process", n)
	}
	open()
	begun := time.Now()
	r.start(spec{Role: "sweeper", Name: "sweeper"})
	again := r.awaitEvents(5*lease()+pollAlone, 10, started)
	// It trusts itself after a lease of its own; the worker finds the jobs with its next poll.
	if took, most := again.last().Sub(begun), lease()+lease()/5+2*sweepEvery+time.Second+pollAlone+time.Second+crowd(); took > most {
		t.Errorf("they ran again %v after a sweeper had started, at most %v", took, most)
	}
	r.awaitEmpty(10 * time.Second)
	r.check(audit{starts: 2})
}

// B70, and the promise about it: a transaction that has read the log, the live rows and the outcomes and stays open stops
// no enqueue for more than 100 ms, though the duty rotate tries every second. Partitions hold a minute here. Those of
// tables that the transaction has not read are made meanwhile; to attach one of a table that it has read Postgres wants
// the default partition for itself, so they wait for its end: that is why they are made ahead. Short: 15 s instead of
// ten minutes, and 250 ms, since a dozen other tests use the machine; run it alone for the 100 ms.
//
// What counts is what the server says of waits for locks; how long an enqueue took is also the machine's doing.
func TestALongTransactionElsewhereStopsNeitherEnqueuesNorRotation(t *testing.T) {
	t.Parallel()
	log := &record{}
	r := newRig(t, loggingPostgres(log, map[string]string{
		"fsync": "off", "log_lock_waits": "on", "deadlock_timeout": pick("250ms", "100ms"), "log_line_prefix": "%m [%p %a] ",
	}), minutely())
	r.worker("worker", slots(20))
	quiet := r.longestGap(2 * time.Second)
	release := r.hold("SELECT count(*) FROM weir.jobs", "SELECT count(*) FROM weir.live", "SELECT count(*) FROM weir.outcomes")
	before := r.partitions("%")
	s := r.start(spec{Role: "sweeper", Name: "sweeper", Rotate: time.Second, Width: pgstore.Minute})
	gap := r.longestGap(pick(15*time.Second, 10*time.Minute))
	made := r.partitions("%") - before
	t.Logf("longest time of an enqueue: %v, %v without a sweeper; %d partitions were made meanwhile, %d of them of jobs",
		gap, quiet, made, r.partitions("jobs%")-before/len(pgstore.Parents))
	release()
	if n := log.count("still waiting for"); n != 0 {
		t.Errorf("%d times somebody waited too long for a lock:\n%s", n, log.lines("still waiting for"))
	}
	if gap > time.Second+crowd()/8 {
		t.Errorf("an enqueue took %v", gap)
	}
	testenv.Eventually(t, 15*time.Second+crowd(), func() bool { return r.partitions("%") >= before+40 },
		"the partitions that are due are not made after the transaction has ended")
	if n := s.logged("duty fails"); n != 0 {
		t.Errorf("a duty failed %d times", n)
	}
	if made == 0 {
		t.Error("no partition was made while the transaction was open")
	}
	r.awaitEmpty(15 * time.Second)
	r.check(audit{})
}

// partitions counts those whose name is like one.
func (r *rig) partitions(like string) int {
	return r.count(`SELECT count(*) FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid WHERE c.relname LIKE $1
		AND inhparent IN ('weir.jobs'::regclass, 'weir.outcomes'::regclass, 'weir.dead'::regclass, 'weir.attempts'::regclass)`, like)
}

// longestGap enqueues job after job for a while and returns the longest time that one took.
func (r *rig) longestGap(d time.Duration) (longest time.Duration) {
	r.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); pause(2 * time.Millisecond) {
		began := time.Now()
		r.enqueue(work{})
		longest = max(longest, time.Since(began))
	}
	return longest
}
