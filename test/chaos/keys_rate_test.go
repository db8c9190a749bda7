//go:build unix

package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// B43: 100 starts a second, 5,000 jobs that want one, four workers. Every window of a second has at most 100 starts, and
// at least 97 while there are jobs to start; who has nothing to do with the rate is picked up as before. Short: 500 jobs, and
// as on a machine that is busy with other tests starts come late: 100 ms after their permission, and 60 are enough. Run the
// long form alone.
//
// It runs by itself, since it measures.
func TestARateIsKeptInEveryWindowAndUsedUp(t *testing.T) {
	const n, per = 100, time.Second
	r := newRig(t, privatePostgres("fsync", "off"), privateRedis())
	r.sweeper("sweeper")
	for i := range 4 {
		r.worker(fmt.Sprint("worker", i), patient, func(s *spec) { s.Queues = map[string]int{"rated": 50, "others": 10} })
	}
	before := r.others(pick(3*time.Second, 20*time.Second))
	jobs := pick(500, 5000)
	ids := r.enqueueMany(jobs, work{}, job.Options{Queue: "rated", Keys: []job.Key{job.Rate("other side", n, per)}})
	during := r.others(pick(3*time.Second, 20*time.Second))
	r.awaitEmpty(time.Duration(jobs/n)*per + 30*time.Second)
	r.check(audit{})
	starts := r.startTimes(ids)
	slack := pick(100*time.Millisecond, 0)
	fullest, _ := windows(starts, per-slack)
	_, emptiest := windows(starts, per+slack)
	t.Logf("%d starts in %v; windows of %v and %v have at least %d and at most %d; others are picked up with a p99 of %v, %v before",
		len(starts), starts[len(starts)-1].Sub(starts[0]), per+slack, per-slack, emptiest, fullest, quantile(during, 0.99), quantile(before, 0.99))
	if fullest > n {
		t.Errorf("a window of %v has %d starts, at most %d", per, fullest, n)
	}
	if least := pick(60, 97); emptiest < least {
		t.Errorf("a window of %v has only %d starts, at least %d while jobs wait", per+slack, emptiest, least)
	}
	// The long form measures; in the short one a few hundred pickups have a p99 that is one of them.
	if p, most := quantile(during, 0.99), quantile(before, 0.99)*12/10+time.Millisecond+crowd()/80; p > most {
		t.Errorf("others are picked up with a p99 of %v, at most %v", p, most)
	}
}

// patience is how long an answer of Redis may take on a machine that is busy with other tests. A worker that gave Redis up
// would take its own share of the rate instead: over the limit together with what Redis has granted others.
const patience = 5 * time.Second

func patient(s *spec) { s.Patience = patience }

// B43: all workers are killed while the rate is used up, and others start at once: what the former had is not given again.
func TestARestartGivesARateNoNewBudget(t *testing.T) {
	t.Parallel()
	const n, per = 32, time.Second
	r := newRig(t, privateRedis())
	r.sweeper("sweeper")
	first := []*process{r.worker("first0", slots(50), patient), r.worker("first1", slots(50), patient)}
	ids := r.enqueueMany(pick(160, 640), work{For: 200 * time.Millisecond}, job.Options{Keys: []job.Key{job.Rate("other side", n, per)}})
	pause(pick(2*time.Second, 10*time.Second))
	for _, p := range first {
		p.kill()
	}
	for i := range 2 {
		r.start(spec{Role: "worker", Name: fmt.Sprint("second", i), Queues: map[string]int{"default": 50}, Patience: patience})
	}
	r.awaitEmpty(time.Duration(2*len(ids)/n)*per + 30*time.Second)
	again := r.check(audit{starts: 2})
	starts := r.startTimes(ids)
	slack := pick(100*time.Millisecond, 0)
	fullest, _ := windows(starts, per-slack)
	t.Logf("%d starts, %d of them again; a window of %v has at most %d", len(starts), again, per-slack, fullest)
	if fullest > n {
		t.Errorf("a window of %v has %d starts, at most %d", per-slack, fullest, n)
	}
}

// others enqueues jobs without the rate for a while, every other with a lock of its own, and returns how long each waited.
func (r *rig) others(d time.Duration) []time.Duration {
	r.t.Helper()
	sent := map[job.ID]time.Time{}
	for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
		o := job.Options{Queue: "others"}
		if i%2 == 1 {
			o.Keys = []job.Key{job.Mutex(fmt.Sprint("other:", i))}
		}
		began := time.Now()
		sent[r.enqueue(work{}, o)] = began
		pause(10 * time.Millisecond)
	}
	return late(sent, r.starts(ids(sent), 1))
}

// startTimes returns when jobs started, all their starts, in order.
func (r *rig) startTimes(list []job.ID) []time.Time {
	r.t.Helper()
	begun := readLedgers(r.t, r.dir).of(started).byID()
	var out []time.Time
	for _, id := range list {
		for _, e := range begun[id] {
			out = append(out, e.At)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// windows counts the starts in windows of a length: the most in one that begins with a start, and the least in one that
// begins right after a start, in the steady state: from one length after the first start to the last.
func windows(starts []time.Time, length time.Duration) (most, least int) {
	first, last := starts[0].Add(length), starts[len(starts)-1]
	least = len(starts)
	with, after := 0, 0
	for begin := range starts {
		to := starts[begin].Add(length)
		for with < len(starts) && starts[with].Before(to) {
			with++
		}
		for after < len(starts) && !starts[after].After(to) {
			after++
		}
		most = max(most, with-begin)
		if !starts[begin].Before(first) && !to.After(last) {
			least = min(least, after-begin-1)
		}
	}
	return most, least
}

// The measure itself: a hundred at once each second are in no window twice, and one more is seen.
func TestWindowsAreCounted(t *testing.T) {
	t.Parallel()
	origin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var even []time.Time
	for i := range 50 {
		even = append(even, origin.Add(time.Duration(i)*100*time.Millisecond))
	}
	early := append(slices.Clone(even), origin.Add(2050*time.Millisecond))
	slices.SortFunc(early, time.Time.Compare)
	late := slices.Delete(slices.Clone(even), 25, 26)
	for name, c := range map[string]struct {
		starts      []time.Time
		most, least int
	}{
		"evenly":       {even, 10, 10},
		"one too many": {early, 11, 10},
		"one too few":  {late, 10, 9},
	} {
		if most, least := windows(c.starts, time.Second); most != c.most || least != c.least {
			t.Errorf("%s: %d and %d, want %d and %d", name, most, least, c.most, c.least)
		}
	}
}
