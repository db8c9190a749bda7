//go:build unix

package chaos_test

import (
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

// proxy is a link to the rig's database.
func (r *rig) proxy() *testenv.Proxy {
	r.t.Helper()
	u, err := url.Parse(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	return testenv.NewProxy(r.t, u.Host)
}

// B19: healthy, only slow: a handler of four times the lease, one whose renewals all take 0.4 of the lease, and one
// that never lets go of its only processor. Short: a lease of 4 s and 12 s of work (the slow one: 6 s and 24 s) instead of
// 15 s and 60 s.
func TestAHandlerLongerThanItsLeaseRunsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sweeper("sweeper")
	r.worker("plain", serving("plain", 4))
	slow := r.proxy()
	slowLease := pick(2*lease(), lease()) // its renewals are more than a second apart, as they are by default
	r.worker("slow", serving("slow", 4), func(s *spec) { s.Postgres, s.Lease = slow.Through(t, r.url), slowLease })
	r.startBusy()
	r.enqueueMany(2, work{For: 4 * lease()}, job.Options{Queue: "plain"})
	r.enqueueMany(2, work{For: 4 * slowLease}, job.Options{Queue: "slow"})
	r.enqueue(work{Do: doSpin, For: 4 * lease()}, job.Options{Queue: "busy"})
	r.awaitEvents(20*time.Second, 5, started)
	slow.Delay(2 * slowLease / 5)
	pause(4 * slowLease)
	slow.Delay(0)
	r.awaitEmpty(10 * lease())
	r.check(audit{})
	r.allAlive()
}

// startBusy starts a worker with a single processor.
func (r *rig) startBusy() {
	r.t.Helper()
	p := r.start(spec{Role: "worker", Name: "busy", Queues: map[string]int{"busy": 2}}, "GOMAXPROCS=1")
	p.awaitSession()
}

// allAlive checks that no process was called dead.
func (r *rig) allAlive() {
	r.t.Helper()
	if n := r.count("SELECT count(*) FROM weir.sessions WHERE dead_at IS NOT NULL AND state <> 'draining'"); n != 0 {
		r.t.Errorf("%d living processes were called dead", n)
	}
	if n := r.count("SELECT count(*) FROM weir.attempts"); n != 0 {
		r.t.Errorf("%d attempts were interrupted", n)
	}
}

// A worker that stood still for longer than its lease has lost its jobs: what it then says of them is refused, and it
// goes on as a new process would. Short: a lease of 4 s.
func TestAFrozenWorkerIsRefusedAndGoesOnWithANewSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.sweeper("sweeper")
	frozen := r.worker("frozen")
	session := r.sessionOf("frozen")
	gate, open := r.gate()
	ids := r.enqueueMany(10, work{Gate: gate, Do: doDeaf}, job.Options{MaxAttempts: 1})
	r.awaitEvents(10*time.Second, 10, started, "frozen")
	frozen.signal(syscall.SIGSTOP)
	stopped := time.Now()
	other := r.worker("other")
	again := r.awaitEvents(4*lease(), 10, started, "other")
	if took, most := again.last().Sub(stopped), recoverBound(s); took > most {
		t.Errorf("its jobs ran elsewhere after %v, at most %v", took, most)
	}
	// Its handlers return the moment it goes on, while the jobs are still running elsewhere.
	must(t, os.WriteFile(gate+".frozen", nil, 0o600))
	frozen.signal(syscall.SIGCONT)
	r.awaitEvents(10*time.Second, 10, ended, "frozen") // well, each with a result
	testenv.Eventually(t, 10*time.Second+crowd(), func() bool { return r.sessionOf("frozen") != "" && r.sessionOf("frozen") != session },
		"it has no new session")
	pause(time.Second)
	if n := r.count("SELECT count(*) FROM weir.live WHERE state = 1"); n != 10 {
		t.Errorf("%d jobs are still running, want 10: late results of the frozen process were taken", n)
	}
	open()
	r.awaitEmpty(10 * time.Second)
	other.stop()
	r.enqueueMany(10, work{})
	r.awaitEmpty(15 * time.Second)
	n := r.count("SELECT count(*) FROM weir.outcomes WHERE session = $1", session)
	if n != 0 {
		t.Errorf("%d late results of the frozen process were taken", n)
	}
	frozen.stop()
	if n := r.check(audit{starts: 2}); n != len(ids) {
		t.Errorf("%d jobs ran again, want %d", n, len(ids))
	}
}
