//go:build unix

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

// holds returns how many jobs are leased by a session.
func (r *rig) holds(session string) int {
	return r.count("SELECT count(*) FROM weir.live WHERE session = $1", session)
}

// B64: a worker is asked to end at random moments under load, far more jobs being there than it has slots. Nothing stays
// in its hands, nothing has used an attempt, nothing has run twice. Short: 8 rounds instead of 200.
func TestAWorkerThatIsToldToEndLeavesNothingInItsHands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sweeper("sweeper")
	r.enqueueMany(pick(1500, 10_000), work{For: 20 * time.Millisecond}, job.Options{MaxAttempts: 1})
	for i := range pick(8, 200) {
		name := fmt.Sprintf("worker%d", i)
		w := r.worker(name, slots(2))
		session := r.sessionOf(name)
		after := rand.N(700 * time.Millisecond)
		pause(after)
		w.stop()
		if n := r.holds(session); n != 0 {
			t.Errorf("round %d, told to end after %v: %d jobs are left in its hands", i, after, n)
		}
	}
	if n := r.count("SELECT count(*) FROM weir.live WHERE attempt <> 0 OR crashes <> 0"); n != 0 {
		t.Errorf("%d jobs that have not started have used an attempt", n)
	}
	r.worker("last", slots(200))
	r.awaitEmpty(30 * time.Second)
	r.check(audit{})
}

// B61, B62 and B26 (a): handlers that clean up after they were told to stop, that ignore it, and that enqueue at the end.
// The worker ends in time, the first and the last are released at once, the deaf one when this process is gone for certain;
// nothing is closed under them.
func TestHandlersThatOutstayTheGraceAreReleased(t *testing.T) {
	t.Parallel()
	const grace, exitsBy = time.Second, 5 * time.Second
	r := newRig(t)
	r.sweeper("sweeper")
	w := r.worker("worker", func(s *spec) { s.Grace, s.ExitsBy = grace, exitsBy })
	session := r.sessionOf("worker")
	once := job.Options{MaxAttempts: 1}
	clean := r.enqueue(work{Do: doCleanUp, For: time.Minute}, once)
	deaf := r.enqueue(work{Do: doDeaf, For: time.Minute}, once)
	follow := r.enqueue(work{Do: doFollow, For: time.Minute}, once)
	r.awaitEvents(10*time.Second, 3, started)
	told := time.Now()
	w.signal(syscall.SIGTERM)
	w.wait(exitsBy + time.Second)
	took := time.Since(told)
	t.Logf("ended %v after the signal with code %d", took, w.cmd.ProcessState.ExitCode())
	if n := r.holds(session); n != 0 {
		t.Errorf("%d jobs are left in its hands", n)
	}
	for id, name := range map[job.ID]string{clean: "clean", deaf: "deaf", follow: "follow"} {
		wait := ask[float64](r, "SELECT extract(epoch FROM ready_at - clock_timestamp())::float8 FROM weir.live WHERE id = $1 AND attempt = 0 AND crashes = 0", id.UUID())
		if name != "deaf" && wait > 0 {
			t.Errorf("%s is due again in %v s, want at once", name, wait)
		}
		if gone := (exitsBy - took).Seconds(); name == "deaf" && (wait < gone || wait > gone+3) {
			t.Errorf("the deaf one is due again in %v s, want when the process is gone for certain, %v s, and 2 s", wait, gone)
		}
	}
	ledgers := readLedgers(t, r.dir)
	if list := ledgers.of(noted); len(list) != 1 || list[0].Err != "clean-up: " {
		t.Errorf("the clean-up came to %v", list)
	}
	if n := len(ledgers.of(acked, "worker")); n != 1 {
		t.Errorf("%d jobs were enqueued at the end, want 1", n)
	}
	if strings.Contains(w.text(), "closed pool") || strings.Contains(w.text(), "client is closed") {
		t.Error("something was closed under a handler")
	}
	r.worker("next")
	r.awaitEvents(exitsBy+10*time.Second, 3+3+1, started) // all three again, and the one that was enqueued at the end
	r.check(audit{starts: 2, live: true})
}

// B65: a second signal ends the process at once; what it held is recovered by the lease, and counts as a crash. (The
// signals are this test's own process': package run has its own test.)
func TestASecondSignalLeavesTheJobsToTheLease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.sweeper("sweeper")
	w := r.worker("worker")
	gate, open := r.gate()
	r.enqueueMany(3, work{Do: doDeaf, Gate: gate}, job.Options{MaxAttempts: 1})
	r.awaitEvents(10*time.Second, 3, started)
	w.signal(syscall.SIGTERM)
	testenv.Eventually(t, 10*time.Second+crowd(), func() bool {
		return r.count("SELECT count(*) FROM weir.sessions WHERE version = 'worker' AND state = 'draining'") == 1
	}, "the worker does not close")
	w.signal(syscall.SIGTERM)
	if code := w.wait(time.Second); code != exitForced {
		t.Errorf("ended with code %d, want %d", code, exitForced)
	}
	gone := time.Now()
	r.worker("next")
	again := r.awaitEvents(4*lease(), 3, started, "next")
	if took, most := again.last().Sub(gone), recoverBound(s); took > most {
		t.Errorf("they ran again after %v, at most %v", took, most)
	}
	open()
	r.awaitEmpty(10 * time.Second)
	r.check(audit{starts: 2})
}
