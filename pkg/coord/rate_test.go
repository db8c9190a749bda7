package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/coord"
)

// asking returns n jobs of one rate.
func asking(prefix string, n int, r coord.RateKey) []coord.RateJob {
	jobs := make([]coord.RateJob, n)
	for i := range jobs {
		jobs[i] = coord.RateJob{Member: prefix + strconv.Itoa(i), Rates: []coord.RateKey{r}}
	}
	return jobs
}

func reserve(t testing.TB, b *coord.Bus, jobs ...coord.RateJob) []time.Duration {
	t.Helper()
	wait, _, err := b.Reserve(t.Context(), jobs, 0)
	must(t, err)
	return wait
}

// granted counts the jobs that may start now.
func granted(wait []time.Duration) (n int) {
	for _, d := range wait {
		if d == 0 {
			n++
		}
	}
	return n
}

func TestAskingAgainKeepsTheInstantAndCountsOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		c, bus := newClock(t, rdb)
		jobs := asking("", 8, coord.RateKey{Name: "r", N: 4, Per: time.Second})
		first := reserve(t, bus, jobs...)
		if granted(first) != 4 {
			t.Fatalf("got %v, want 4 of 8 now", first)
		}
		for range 5 {
			if again := reserve(t, bus, jobs...); !slices.Equal(again, first) {
				t.Errorf("again: got %v, want %v as before", again, first)
			}
		}
		c.pass(t, 400*time.Millisecond)
		if got := reserve(t, bus, jobs[7]); got[0] != first[7]-400*time.Millisecond {
			t.Errorf("0.4s later the last waits %v, want the rest of %v", got[0], first[7])
		}
		c.pass(t, first[7])
		if got := reserve(t, bus, jobs[7], jobs[7]); granted(got) != 2 {
			t.Errorf("when its instant has come: got %v, want that it may start, and still may when it asks twice", got)
		}
	})
}

func TestAnotherFenceIsAnotherStart(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		_, bus := newClock(t, rdb)
		r := []coord.RateKey{{Name: "r", N: 1, Per: time.Second}}
		got := reserve(t, bus, coord.RateJob{Member: "j:1", Rates: r}, coord.RateJob{Member: "j:2", Rates: r})
		if got[0] != 0 || got[1] < time.Second {
			t.Errorf("got %v, want the second claim a window later", got)
		}
	})
}

func TestWeightsCountAndAHeavyJobGetsItsTurn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		c, bus := newClock(t, rdb)
		job := func(name string, weight int) coord.RateJob {
			return coord.RateJob{Member: name, Rates: []coord.RateKey{{Name: "r", N: 10, Per: time.Second, Weight: weight}}}
		}
		got := reserve(t, bus, job("a", 7), job("b", 3), job("c", 1))
		if got[0]+got[1] != 0 || got[2] < time.Second {
			t.Errorf("weights 7, 3, 1 of 10: got %v, want the third to wait", got)
		}
		got = reserve(t, bus, job("heavier than the limit", 99), job("behind", 1))
		if got[0] < 2*time.Second || got[0] > 3*time.Second || got[1] < got[0]+time.Second {
			t.Errorf("got %v, want a window for the heavy one alone and the next job behind it", got)
		}
		c.pass(t, got[0])
		if again := reserve(t, bus, job("heavier than the limit", 99)); again[0] != 0 {
			t.Errorf("the heavy one at its instant: got %v", again)
		}
	})
}

func TestAJobOfTwoRatesWaitsForTheSlowerAndHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		c, bus := newClock(t, rdb)
		fast, slow := coord.RateKey{Name: "fast", N: 10, Per: time.Second}, coord.RateKey{Name: "slow", N: 1, Per: 5 * time.Second}
		both := func(name string) coord.RateJob {
			return coord.RateJob{Member: name, Rates: []coord.RateKey{fast, slow}}
		}
		got := reserve(t, bus, both("1"), both("2"), both("3"))
		if got[0] != 0 || got[1] < 5*time.Second || got[2] < 10*time.Second {
			t.Errorf("of both rates: got %v, want one in 5s", got)
		}
		if got := reserve(t, bus, asking("fast ", 9, fast)...); granted(got) != 9 {
			t.Errorf("of the fast rate alone: got %v, want room for 9 now", got)
		}
		c.pass(t, got[1])
		if got := reserve(t, bus, both("2")); got[0] != 0 {
			t.Errorf("the second at its instant: got %v", got)
		}
	})
}

func TestAHoldMovesNewJobsAndThoseInLine(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		c, bus := newClock(t, rdb)
		jobs := asking("", 4, coord.RateKey{Name: "r", N: 2, Per: time.Second})
		first := reserve(t, bus, jobs...)
		must(t, bus.HoldRate(t.Context(), "r", 10*time.Second))
		must(t, bus.HoldRate(t.Context(), "r", time.Second)) // does not shorten it
		got := reserve(t, bus, append(jobs[2:], asking("new", 1, jobs[0].Rates[0])...)...)
		for i, d := range got {
			if d < 10*time.Second || d > 13*time.Second {
				t.Errorf("job %d, before %v: got %v, want the end of the hold", i, first, got)
			}
		}
		c.pass(t, got[0])
		if got := reserve(t, bus, jobs[2]); got[0] != 0 {
			t.Errorf("after the hold: got %v", got)
		}
	})
}

func TestNotBeforePutsOffAJobAlone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		_, bus := newClock(t, rdb)
		jobs := asking("", 2, coord.RateKey{Name: "r", N: 1, Per: time.Second})
		jobs[0].NotBefore = 20*time.Second + time.Microsecond
		if got := reserve(t, bus, jobs...); got[0] < 20*time.Second+time.Millisecond || got[1] != 0 {
			t.Errorf("got %v, want the first after 20.001s and the second now", got)
		}
	})
}

func TestALimitThatIsLoweredOrRaisedCountsAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		c, bus := newClock(t, rdb)
		r := coord.RateKey{Name: "r", N: 10, Per: time.Second}
		reserve(t, bus, asking("", 6, r)...)
		r.N = 3
		if got := reserve(t, bus, asking("low", 1, r)...); granted(got) != 0 {
			t.Errorf("6 of 3 have started: got %v", got)
		}
		c.pass(t, 3*time.Second)
		if got := reserve(t, bus, asking("lower", 5, r)...); granted(got) != 3 {
			t.Errorf("of 3: got %v", got)
		}
		r.N = 0
		_, parked, err := bus.Reserve(t.Context(), asking("closed", 1, r), 0)
		if err != nil || !parked[0] {
			t.Errorf("of 0: got parked %v, %v", parked, err)
		}
	})
}

// Another window, for the whole rate or for some of its jobs, is no new budget.
func TestAnotherWindowForgetsNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		c, bus := newClock(t, rdb)
		short, long := coord.RateKey{Name: "r", N: 100, Per: time.Second}, coord.RateKey{Name: "r", N: 100, Per: 10 * time.Second}
		if got := reserve(t, bus, asking("short", 60, short)...); granted(got) != 60 {
			t.Errorf("got %d of 60 now", granted(got))
		}
		if got := reserve(t, bus, asking("long", 60, long)...); granted(got) != 40 {
			t.Errorf("60 have started in the last 10s: got %d now, want 40", granted(got))
		}
		c.pass(t, 5*time.Second)
		if got := reserve(t, bus, asking("more", 1, long)...); granted(got) != 0 {
			t.Errorf("100 have started in the last 10s: got %v", got)
		}
		c.pass(t, 70*time.Second) // the long window is out of use: the grain is that of the short one again
		jobs := asking("again", 300, short)
		if wait := reserve(t, bus, jobs...); granted(wait) != 100 || wait[299] > 3200*time.Millisecond {
			t.Errorf("got %d now, the last in %v; want 100 and 3s", granted(wait), wait[299])
		}
	})
}

func TestAClockThatGoesBackParksNobodyForEver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		c, bus := newClock(t, rdb)
		r := coord.RateKey{Name: "r", N: 2, Per: time.Second}
		reserve(t, bus, asking("", 100, r)...)
		c.pass(t, -time.Hour)
		if got := reserve(t, bus, asking("back", 3, r)...); granted(got) != 2 || got[2] > 2*time.Second {
			t.Errorf("an hour before: got %v, want an empty rate", got)
		}
	})
}

func TestWhatIsNoRateIsRefused(t *testing.T) {
	t.Parallel()
	b := coord.New(dial(t, "127.0.0.1:1"), coord.Config{})
	for want, rates := range map[string][]coord.RateKey{
		"without a rate":     nil,
		"limit 1ms":          {{Name: "r", N: 1, Per: time.Microsecond}},
		"names a rate twice": {{Name: "r", N: 1, Per: time.Second}, {Name: "r", N: 2, Per: time.Second}},
		"limits for 1 keys":  nil,
	} {
		_, _, err := b.Reserve(t.Context(), []coord.RateJob{{Member: "1", Rates: rates}}, 0)
		if want == "limits for 1 keys" {
			_, err = b.Acquire(t.Context(), []coord.LockJob{{ID: "1", Keys: []string{"a"}, Limits: []int{1, 2}}}, time.Second)
		}
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// A rate of a million is counted in as few buckets as any other.
func TestAHugeRateIsBounded(t *testing.T) {
	t.Parallel()
	rdb := real(t)
	c, bus := newClock(t, rdb)
	r := coord.RateKey{Name: "r", N: 1_000_000, Per: time.Second, Weight: 1000}
	for i := range 40 {
		jobs := asking(fmt.Sprint(i, "/"), 50, r)
		if wait := reserve(t, bus, jobs...); i < 20 != (granted(wait) == 50) {
			t.Fatalf("after %d of 1000 jobs: got %d of 50 now", 50*i, granted(wait))
		}
		c.pass(t, time.Millisecond)
	}
	if n := rdb.ZCard(context.Background(), "{"+c.namespace()+"}:1:ratebuckets:r").Val(); n > 300 {
		t.Errorf("buckets: got %d, want some 200", n)
	}
}
