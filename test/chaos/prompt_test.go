//go:build unix

package chaos_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
)

// quantile returns the smallest value that is not less than a share of all.
func quantile(list []time.Duration, share float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[min(int(share*float64(len(list))), len(list)-1)]
}

// P6: nobody polls here: workers that know of a sweeper look every 30 s. What has no hint, or whose only hint went to a
// worker that stands still, starts within half a second of its time all the same. Short: 40 of each instead of 200, and 1.5 s.
//
// It runs by itself, since it measures.
func TestJobsWithoutAHintStartWithinHalfASecond(t *testing.T) {
	r := newRig(t)
	r.sweeper("sweeper")
	r.worker("one", slots(50))
	r.worker("two", slots(50))
	n := pick(40, 200)
	r.awaitQuiet()
	t.Run("of several kinds at once", func(t *testing.T) {
		for name, measure := range map[string]func(n int) []time.Duration{
			"enqueued from SQL": r.fromSQL,
			"a delay of 2 s":    r.delayed,
			"a retry after 3 s": r.retried,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				prompt(t, measure(n), n)
			})
		}
	})
	t.Run("the hint went to a frozen worker", func(t *testing.T) { prompt(t, r.hintLost(n), n) })
	r.awaitEmpty(20 * time.Second)
	r.check(audit{starts: 2, attempts: 2})
}

func prompt(t *testing.T, late []time.Duration, n int) {
	t.Helper()
	if len(late) != n {
		t.Fatalf("measured %d of %d", len(late), n)
	}
	t.Logf("p50 %v, p99 %v, worst %v", quantile(late, 0.5), quantile(late, 0.99), slices.Max(late))
	if p99, most := quantile(late, 0.99), 500*time.Millisecond+crowd()/4; p99 > most {
		t.Errorf("p99 %v after their time, at most %v", p99, most)
	}
	if slices.Min(late) < 0 {
		t.Errorf("one started %v before its time", -slices.Min(late))
	}
}

// awaitQuiet waits until the workers know of the sweeper: their polls are far apart from then on.
func (r *rig) awaitQuiet() { pause(lease() + 2*time.Second) }

// starts returns when jobs started, the nth time each.
func (r *rig) starts(ids []job.ID, nth int) map[job.ID]time.Time {
	r.t.Helper()
	at := map[job.ID]time.Time{}
	var missing job.ID
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%v is still missing: %s", missing, ask[string](r, "SELECT coalesce((SELECT to_json(l)::text FROM weir.live AS l WHERE id = $1), 'not live')", missing.UUID()))
		}
	}()
	testenv.Eventually(r.t, 30*time.Second+crowd(), func() bool {
		all := readLedgers(r.t, r.dir).of(started).byID()
		for _, id := range ids {
			if len(all[id]) < nth {
				missing = id
				return false
			}
			at[id] = all[id].last()
		}
		return true
	}, "not all of %d jobs have started %d times", len(ids), nth)
	return at
}

// late returns how long after the times in due the jobs started.
func late(due, at map[job.ID]time.Time) []time.Duration {
	var out []time.Duration
	for id, t := range at {
		out = append(out, t.Sub(due[id]))
	}
	return out
}

func ids(due map[job.ID]time.Time) []job.ID {
	var out []job.ID
	for id := range due {
		out = append(out, id)
	}
	return out
}

func (r *rig) fromSQL(n int) []time.Duration {
	due := map[job.ID]time.Time{}
	for range n {
		text := ask[string](r, `SELECT weir.enqueue('work', '{}')::text`)
		id, err := job.ParseID(text)
		must(r.t, err)
		due[id] = time.Now() // the commit was a moment ago
		r.ledger.note(event{What: acked, ID: id})
		pause(40 * time.Millisecond)
	}
	out := late(due, r.starts(ids(due), 1))
	for i := range out { // it may be quicker than the answer
		out[i] = max(out[i], 0)
	}
	return out
}

func (r *rig) delayed(n int) []time.Duration {
	due := map[job.ID]time.Time{}
	for range n {
		id := r.enqueue(work{}, job.Options{Delay: 2 * time.Second})
		due[id] = ask[time.Time](r, "SELECT scheduled_at FROM weir.jobs WHERE id = $1", id.UUID())
		pause(40 * time.Millisecond)
	}
	return late(due, r.starts(ids(due), 1))
}

func (r *rig) retried(n int) []time.Duration {
	var list []job.ID
	for range n {
		list = append(list, r.enqueue(work{Do: doRetry, For: 3 * time.Second}))
		pause(40 * time.Millisecond)
	}
	at := r.starts(list, 2)
	due := map[job.ID]time.Time{}
	for _, e := range readLedgers(r.t, r.dir).of(ended) {
		if _, ours := at[e.ID]; ours && e.Attempt == 1 {
			due[e.ID] = e.At.Add(3 * time.Second)
		}
	}
	return late(due, at)
}

// hintLost freezes a worker and puts it back into the idle set before each enqueue, with more free slots than anybody:
// the hint goes to it.
func (r *rig) hintLost(n int) []time.Duration {
	r.t.Helper()
	frozen := r.worker("frozen", slots(1000))
	rdb := testenv.Client(r.t, r.redisURL)
	var name string
	testenv.Eventually(r.t, 10*time.Second+crowd(), func() bool {
		best, err := rdb.ZRangeWithScores(r.t.Context(), "{"+r.namespace+"}:1:idle:default", -1, -1).Result()
		if err != nil || len(best) == 0 || best[0].Score < 1000 {
			return false
		}
		name = best[0].Member.(string)
		return true
	}, "the worker does not register")
	frozen.signal(syscall.SIGSTOP)
	defer frozen.kill()
	bus := coord.New(rdb, coord.Config{Namespace: r.namespace})
	due := map[job.ID]time.Time{}
	for range n {
		must(r.t, bus.Register(r.t.Context(), name, coord.Idle{Queue: "default", Free: 1000}))
		id := r.enqueue(work{})
		due[id] = time.Now()
		pause(60 * time.Millisecond)
	}
	return late(due, r.starts(ids(due), 1))
}

// B46: after a stall that stops all of 50 idle loops at once their polls spread again; and a single job wakes few.
func TestPollsSpreadAfterAStallAndAJobWakesFew(t *testing.T) {
	t.Parallel()
	const loops = 50
	r := newRig(t, privatePostgres("max_connections", "300", "fsync", "off"))
	r.start(spec{
		Role: "worker", Name: "many", Loops: loops, Queues: map[string]int{"default": 1}, Poll: time.Second, TraceClaims: true,
		Lease: 15 * time.Second, // 50 renewals a second would be another test
	})
	testenv.Eventually(t, 30*time.Second+crowd(), func() bool { return r.count("SELECT count(*) FROM weir.sessions") == loops }, "not all are up")
	pause(2 * time.Second)
	must(t, r.postgres.Pause())
	pause(3 * time.Second)
	must(t, r.postgres.Resume())
	back := time.Now()
	pause(12 * time.Second)
	claims := readLedgers(t, r.dir).of(queried)
	const bins = 20 // of 100 ms, from 10 s after the stall on
	var perBin [bins]int
	total := 0
	for _, e := range claims {
		if i := int(e.At.Sub(back.Add(10*time.Second)) / (100 * time.Millisecond)); e.At.After(back.Add(10*time.Second)) && i < bins {
			perBin[i]++
			total++
		}
	}
	busiest, average := slices.Max(perBin[:]), float64(total)/bins
	t.Logf("10 s after the stall: %d claims in 2 s, busiest 100 ms %d, average %.1f", total, busiest, average)
	if total < loops || float64(busiest) > pick(4.0, 3.0)*average {
		t.Errorf("the busiest 100 ms have %d claims, the average is %.1f (all: %v)", busiest, average, perBin)
	}
	r.claimsOfSingleJobs(total)
}

// claimsOfSingleJobs counts what single jobs cost beyond the polls that go on meanwhile.
func (r *rig) claimsOfSingleJobs(pollsIn2s int) {
	r.t.Helper()
	const n = 40
	before, began := len(readLedgers(r.t, r.dir).of(queried)), time.Now()
	for range n {
		r.enqueue(work{})
		pause(50 * time.Millisecond)
	}
	r.awaitEvents(10*time.Second, n, ended)
	polls := float64(pollsIn2s) / 2 * time.Since(began).Seconds()
	claims := float64(len(readLedgers(r.t, r.dir).of(queried))-before) - polls
	r.t.Logf("%.1f claims a job beside the polls", claims/n)
	if claims > 4*n {
		r.t.Errorf("%d single jobs cost %.0f claims", n, claims)
	}
	r.awaitEmpty(10 * time.Second)
	r.check(audit{})
}

// A worker that is woken all the time stays in the idle set: under a steady load, without a sweeper, jobs start by hints
// and do not gather until the next poll.
func TestASteadyLoadIsNotLeftToThePolls(t *testing.T) {
	r := newRig(t)
	r.worker("worker", slots(20))
	l := r.load(300, work{})
	pause(pick(4*time.Second, time.Minute))
	l.stop()
	r.awaitEmpty(20 * time.Second)
	r.check(audit{})
	ledgers := readLedgers(t, r.dir)
	begun := ledgers.of(started).byID()
	var waits []time.Duration
	for _, e := range ledgers.of(acked) {
		waits = append(waits, begun[e.ID].last().Sub(e.At))
	}
	t.Logf("p50 %v, p99 %v, worst %v", quantile(waits, 0.5), quantile(waits, 0.99), slices.Max(waits))
	if p99 := quantile(waits, 0.99); p99 > 250*time.Millisecond {
		t.Errorf("p99 %v from the acknowledgement to the start", p99)
	}
}
