//go:build unix

package chaos_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

// line is a key that a job holds until its gate opens, and jobs that wait for it.
type line struct {
	rig    *rig
	key    job.Key
	holder job.ID
	waits  []job.ID
	open   func()
}

func (r *rig) line(key string, waiting int) *line {
	r.t.Helper()
	l := &line{rig: r, key: job.Mutex(key)}
	gate, open := r.gate()
	l.open = open
	l.holder = r.enqueue(work{Gate: gate}, job.Options{Keys: []job.Key{l.key}})
	r.starts([]job.ID{l.holder}, 1)
	for range waiting {
		l.waits = append(l.waits, r.enqueue(work{For: 10 * time.Millisecond}, job.Options{Keys: []job.Key{l.key}}))
	}
	return l
}

func uuids(list []job.ID) []string {
	out := make([]string, len(list))
	for i, id := range list {
		out[i] = id.UUID()
	}
	return out
}

// byHand runs a statement about jobs, and checks that it met as many rows as was meant.
func (r *rig) byHand(sql string, list ...job.ID) {
	r.t.Helper()
	tag, err := r.pool.Exec(r.t.Context(), r.in(sql), uuids(list))
	must(r.t, err)
	if n := tag.RowsAffected(); n != int64(len(list)) {
		r.t.Fatalf("%s: %d rows, want %d", sql, n, len(list))
	}
}

// Somebody edits rows while jobs come: live rows of jobs that wait, that run and that hold a key are deleted, log rows too,
// running jobs are set available, lock rows are deleted, and some are made for jobs that are not there. What was edited ends,
// or is gone if its row is; who waited for a key of it goes on; nobody hangs; and no other job knows of it. A job without a log
// row is discarded after a minute, for which the short form does not wait.
func TestRowsThatAreEditedByHandHarmNobodyElse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sweeper := r.start(spec{Role: "sweeper", Name: "sweeper"})
	workers := []*process{r.worker("one", slots(40)), r.worker("two", slots(40))}
	producer := r.start(spec{Role: "producer", Name: "producer", Rate: 100, Mix: true, Job: work{For: 10 * time.Millisecond}})
	gate, open := r.gate()
	runs := r.enqueueMany(12, work{Gate: gate}, job.Options{MaxAttempts: 1})
	r.starts(runs, 1)
	goneHolder, freed, unlocked, unlogged := r.line("hand:gone", 3), r.line("hand:freed", 3), r.line("hand:unlocked", 3), r.line("hand:unlogged", 3)
	sweeper.awaitTrust()
	later := r.enqueueMany(4, work{}, job.Options{Delay: 4 * time.Second})

	edited := time.Now()
	gone := append(slices.Clone(runs[:4]), later[:2]...)
	gone = append(gone, goneHolder.holder)
	r.byHand("DELETE FROM weir.live WHERE id = ANY ($1)", gone...)
	lost := append(slices.Clone(later[2:]), unlogged.waits[0])
	r.byHand("DELETE FROM weir.jobs WHERE id = ANY ($1)", lost...)
	again := append(slices.Clone(runs[4:8]), freed.holder)
	r.byHand("UPDATE weir.live SET state = 0 WHERE state = 1 AND id = ANY ($1)", again[:2]...)
	r.byHand("UPDATE weir.live SET state = 0, session = NULL WHERE state = 1 AND id = ANY ($1)", again[2:]...)
	r.byHand("DELETE FROM weir.locks WHERE job_id = ANY ($1)", unlocked.holder)
	r.exec("INSERT INTO weir.locks (key, slot, job_id, fence) VALUES ('hand:nobody', 0, gen_random_uuid(), 1)")
	r.exec("INSERT INTO weir.locks (key, slot, job_id, fence, until) VALUES ('hand:ever', 0, gen_random_uuid(), 1, now() + interval '1 h')")
	var behind []job.ID
	for _, key := range []string{"hand:nobody", "hand:ever"} {
		for range 3 {
			behind = append(behind, r.enqueue(work{}, job.Options{Keys: []job.Key{job.Mutex(key)}}))
		}
	}

	const repair = 2 * time.Second // the sweeper's look at locks
	r.startWithin(append(behind, goneHolder.waits...), 1, edited, 2*repair+time.Second+crowd())
	r.startWithin(again[2:], 2, edited, pollAlone+time.Second+crowd()) // the others end by the handlers that they have
	opened := time.Now()
	open()
	for _, l := range []*line{goneHolder, freed, unlocked, unlogged} {
		l.open()
	}
	r.startWithin(append(freed.waits, unlocked.waits...), 1, opened, 2*repair+time.Second+crowd())
	r.startWithin(unlogged.waits[1:], 1, opened, 2*repair+time.Second+crowd())
	producer.stop()
	if *long {
		r.awaitEmpty(2 * time.Minute)
	}
	testenv.Eventually(t, 20*time.Second+crowd(), func() bool {
		return r.count("SELECT count(*) FROM weir.live WHERE NOT id = ANY ($1)", uuids(lost)) == 0
	}, "jobs are still live: %v", lazily(r.left))
	testenv.Eventually(t, 10*time.Second+crowd(), func() bool {
		return r.count("SELECT count(*) FROM weir.locks") == 0
	}, "lock rows are left")

	unknown := map[job.ID]bool{}
	for _, id := range append(slices.Clone(gone), lost...) {
		unknown[id] = true
	}
	r.check(audit{starts: 2, attempts: 2, forgotten: unknown, dead: pick(0, len(lost))})
	ends := r.ends()
	for _, id := range gone {
		if len(ends[id]) != 0 {
			t.Errorf("job %s, whose row was deleted, has ended: %v", id, ends[id])
		}
	}
	held, limit := r.keyRuns()
	held = slices.DeleteFunc(held, func(u run) bool { return strings.HasPrefix(u.keys[0], "hand:") })
	r.checkHolders(held, limit)
	r.stillRun(append(workers, sweeper)...)
	if n := r.count("SELECT count(*) FROM weir.sessions WHERE dead_at IS NOT NULL"); n != 0 {
		t.Errorf("%d living processes were called dead", n)
	}
	late := r.lateness(edited.Add(-time.Second), opened)
	t.Logf("%d jobs without keys started %v after their time at the median, p99 %v; %d runs of jobs with keys that nobody touched",
		len(late), quantile(late, 0.5), quantile(late, 0.99), len(held))
}

// startWithin checks that jobs start, the nth time, within a bound.
func (r *rig) startWithin(list []job.ID, nth int, since time.Time, most time.Duration) {
	r.t.Helper()
	took, at := make([]time.Duration, len(list)), r.starts(list, nth)
	for i, id := range list {
		took[i] = at[id].Sub(since)
	}
	worst := slices.Max(took)
	r.t.Logf("%d jobs have started after %v", len(list), worst)
	if worst > most {
		r.t.Errorf("of %d jobs one started after %v, at most %v; in their order: %v", len(list), worst, most, took)
	}
}

// A running job is set available by hand, its session taken off or left, and then its process dies: it runs again like any job
// whose process dies, and the jobs behind it in the queue run at once, though there are more such rows than slots.
func TestAJobThatIsSetAvailableByHandRunsAgain(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"its session is taken off": "UPDATE weir.live SET state = 0, session = NULL WHERE state = 1 AND id = ANY ($1)",
		"its session stays":        "UPDATE weir.live SET state = 0 WHERE state = 1 AND id = ANY ($1)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.sweeper("sweeper")
			victim := r.worker("victim", slots(20))
			gate, open := r.gate()
			list := r.enqueueMany(20, work{Gate: gate}, job.Options{MaxAttempts: 2})
			r.starts(list, 1)
			open()
			victim.signal(syscall.SIGSTOP)
			r.byHand(sql, list...)
			victim.kill()
			killed := time.Now()
			r.worker("other", slots(5))
			behind := r.enqueueMany(10, work{})
			r.startWithin(behind, 1, killed, pollAlone+time.Second+crowd())
			r.startWithin(list, 2, killed, recoverBound(s)+pollAlone)
			r.awaitEmpty(20 * time.Second)
			r.check(audit{starts: 2, attempts: 2})
		})
	}
}
