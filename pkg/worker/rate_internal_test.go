package worker

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/job"
)

// fleet is workers without Redis that share one rate, on a clock of the test. A job that is put off comes due in any of them.
type fleet struct {
	shares []*shares
	now    time.Time
	due    []time.Time // jobs that wait
	starts []time.Time
}

func (f *fleet) step(t *rapid.T, key job.Key, to time.Time) {
	f.now = to
	var later []time.Time
	for _, due := range f.due {
		if due.After(f.now) {
			later = append(later, due)
			continue
		}
		at := rapid.IntRange(0, len(f.shares)-1).Draw(t, "worker")
		wait := f.shares[at].take([]job.Key{key}, len(f.shares), 0, f.now)
		if wait == 0 {
			f.starts = append(f.starts, f.now)
		} else {
			later = append(later, f.now.Add(wait))
		}
	}
	f.due = later
}

// most returns the most starts in any window.
func (f *fleet) most(per time.Duration) (most int) {
	for i, at := range f.starts {
		n := 0
		for _, other := range f.starts[i:] {
			if other.Sub(at) < per {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func TestASharedRateKeepsTheLimitWhereItDividesEvenly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 4).Draw(t, "workers")
		n := workers * rapid.IntRange(1, 5).Draw(t, "each")
		key := job.Rate("r", n, time.Second)
		f := &fleet{now: time.Now()}
		for range workers {
			f.shares = append(f.shares, new(shares))
		}
		begun := f.now
		f.due = make([]time.Time, 20*n)
		for i := range f.due {
			f.due[i] = f.now
		}
		for f.now.Before(begun.Add(8 * time.Second)) {
			f.step(t, key, f.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "ms"))*time.Millisecond))
		}
		if most := f.most(time.Second); most > n {
			t.Fatalf("%d starts in a second, limit %d", most, n)
		}
		if got := len(f.starts); got < 8*n*2/5 { // jobs meet any worker, also one whose share is used up
			t.Fatalf("%d starts in 8 s of %d a second", got, n)
		}
	})
}

func TestAFractionOfAShareAccrues(t *testing.T) {
	t.Parallel()
	key, s, now := job.Rate("r", 1, time.Second), new(shares), time.Now()
	var starts []time.Duration
	due := now
	for at := now; at.Sub(now) < 20*time.Second; at = at.Add(10 * time.Millisecond) {
		if at.Before(due) {
			continue
		}
		wait := s.take([]job.Key{key}, 4, 0, at)
		if due = at.Add(wait); wait == 0 {
			starts = append(starts, at.Sub(now))
		}
	}
	if len(starts) < 4 || len(starts) > 5 { // a quarter of one a second
		t.Errorf("starts at %v", starts)
	}
	for i := 1; i < len(starts); i++ {
		if gap := starts[i] - starts[i-1]; gap < 4*time.Second {
			t.Errorf("%v between two starts", gap)
		}
	}
}

func TestAShareOfWhatCannotBe(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		rates     []job.Key
		notBefore time.Duration
		want      time.Duration
	}{
		"a closed rate waits for the horizon":       {[]job.Key{job.Rate("a", 0, time.Second)}, 0, rateHorizon},
		"a start before its time waits":             {[]job.Key{job.Rate("a", 5, time.Second)}, 7 * time.Second, 7 * time.Second},
		"one that is heavier than the share starts": {[]job.Key{job.Rate("a", 4, time.Second).Weight(4)}, 0, 3060 * time.Millisecond},
		"the slowest of several decides":            {[]job.Key{job.Rate("a", 100, time.Second), job.Rate("b", 1, 2*time.Second)}, 0, 6120 * time.Millisecond},
		"beyond the horizon nothing is booked":      {[]job.Key{job.Rate("a", 1, time.Hour)}, 0, rateHorizon},
	} {
		if got := new(shares).take(c.rates, 4, c.notBefore, now); got.Round(time.Millisecond) != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAStartThatIsGivenBackIsTheNextJobs(t *testing.T) {
	t.Parallel()
	key, s, now := []job.Key{job.Rate("r", 1, time.Second)}, new(shares), time.Now()
	if wait := s.take(key, 1, 0, now); wait != 0 {
		t.Fatalf("the first waits %v", wait)
	}
	s.giveBack(key)
	if wait := s.take(key, 1, 0, now.Add(time.Millisecond)); wait != 0 {
		t.Errorf("the next waits %v", wait)
	}
	if wait := s.take(key, 1, 0, now.Add(2*time.Millisecond)); wait < time.Second-2*time.Millisecond {
		t.Errorf("the third waits %v", wait)
	}
}
