package coord_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/coord"
)

// flow plays a fleet with many jobs of one rate on a clock of its own: every job asks, and asks again late ms after its
// wait is over.
type flow struct {
	c    *clock
	bus  *coord.Bus
	late func(due int64) int64

	asks   int
	starts []int64 // when jobs were let in
	order  []int   // which
}

func newFlow(t *testing.T, rdb redis.UniversalClient, late func(due int64) int64) *flow {
	c, bus := newClock(t, rdb)
	return &flow{c: c, bus: bus, late: late}
}

func hundred(name string) coord.RateJob {
	return coord.RateJob{Member: name, Rates: []coord.RateKey{{Name: "stripe", N: 100, Per: time.Second, Weight: 1}}}
}

// run lets n jobs through that all come at once.
func (f *flow) run(t *testing.T, n int) {
	t.Helper()
	var jobs []coord.RateJob
	for i := range n {
		jobs = append(jobs, hundred(fmt.Sprint(i)))
	}
	due := map[string]int64{}
	for first := true; len(jobs) > 0; first = false {
		var now []coord.RateJob
		if first {
			now, jobs = jobs, nil
		} else {
			slices.SortStableFunc(jobs, func(a, b coord.RateJob) int { return int(due[a.Member] - due[b.Member]) })
			f.c.set(t, max(f.c.ms, due[jobs[0].Member]))
			i := 0
			for i < len(jobs) && due[jobs[i].Member] <= f.c.ms {
				i++
			}
			now, jobs = jobs[:i:i], jobs[i:]
		}
		f.asks += len(now)
		wait, _, err := f.bus.Reserve(t.Context(), now, 0)
		must(t, err)
		for i, j := range now {
			if wait[i] == 0 {
				n, err := strconv.Atoi(j.Member)
				must(t, err)
				f.starts, f.order = append(f.starts, f.c.ms), append(f.order, n)
				continue
			}
			at := f.c.ms + wait[i].Milliseconds()
			due[j.Member] = at + f.late(at)
			jobs = append(jobs, j)
		}
	}
}

// windows returns the least and the most starts in any window of a second that begins after skip and ends before the end.
func (f *flow) windows(skip time.Duration) (least, most int) {
	least = 1 << 30
	last := f.starts[len(f.starts)-1]
	for from := f.starts[0]; from+1000 <= last; from++ {
		lo, _ := slices.BinarySearch(f.starts, from)
		hi, _ := slices.BinarySearch(f.starts, from+1000)
		most = max(most, hi-lo)
		if from >= f.starts[0]+skip.Milliseconds() {
			least = min(least, hi-lo)
		}
	}
	return least, most
}

func TestAFullLineIsAnEvenFlowOf98Percent(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]int64{"on time": 1, "up to 5ms late": 5, "up to 10ms late": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, real(t), func(int64) int64 { return rand.Int64N(late) })
			f.run(t, 800)
			least, most := f.windows(1100 * time.Millisecond)
			if most > 100 || least < 97 {
				t.Errorf("starts in a window of 1s: %d to %d, want 97 to 100", least, most)
			}
			if f.asks != 800+700 {
				t.Errorf("asked %d times, want once for the first 100 and twice for the others", f.asks)
			}
		})
	}
}

func TestJobsThatComeLateNeverFillAWindowTooMuch(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(int64) int64{
		"up to 60ms": func(int64) int64 { return rand.Int64N(60) },
		"some 300ms": func(int64) int64 { return 5 + 300*(rand.Int64N(50)/49) },
		"up to 1s":   func(int64) int64 { return rand.Int64N(1000) },
		"in bunches": func(due int64) int64 { return 250 - due%250 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, real(t), late)
			f.run(t, 800)
			_, most := f.windows(0)
			if most > 100 {
				t.Errorf("starts in a window of 1s: %d, want 100 at most", most)
			}
			took := f.starts[len(f.starts)-1] - f.starts[0]
			t.Logf("took %dms, asked %d times", took, f.asks)
			if took > 10_500 || f.asks > 3*800 {
				t.Errorf("took %dms and %d questions, want 7s, the lateness, and some more", took, f.asks)
			}
		})
	}
}

func TestAfterAStandstillEveryJobMovesOnceAndKeepsItsPlace(t *testing.T) {
	t.Parallel()
	f := newFlow(t, real(t), nil)
	begin := f.c.ms
	f.late = func(due int64) int64 { // nothing runs from the third second to the sixth
		if due > begin+3000 && due < begin+6000 {
			return begin + 6000 - due
		}
		return 0
	}
	f.run(t, 800)
	least, most := f.windows(7200 * time.Millisecond)
	if most > 100 || least < 95 {
		t.Errorf("starts in a window of 1s: %d at most, %d at least after the standstill, want 95 to 100", most, least)
	}
	if took := f.c.ms - begin; took > 11_500 || f.asks > 3*800 {
		t.Errorf("took %dms and %d questions, want 8s and the 3s of the standstill, 3 a job at most", took, f.asks)
	}
	overtakes := 0
	for i := range f.order[1:] {
		if f.order[i] > f.order[i+1] {
			overtakes++
		}
	}
	if overtakes > 4 { // where the strict window ends and the wide one does not yet
		t.Errorf("order of starts: got %d overtakes in %v, want that of the line but for a few", overtakes, f.order)
	}
}

// What limits a fleet with few slots is the slots: instants that pass unused must not.
func TestASlowFleetIsNotSlowedDown(t *testing.T) {
	t.Parallel()
	f := newFlow(t, real(t), nil)
	begin, next := f.c.ms, int64(0)
	f.late = func(due int64) int64 { // 50 jobs a second
		next = max(next+20, due)
		return next - due
	}
	f.run(t, 600)
	if took := f.c.ms - begin; took > 11_500 || f.asks > 1100 {
		t.Errorf("took %dms and %d questions, want 11s and 1100", took, f.asks)
	}
}

func TestInstantsThatAreGivenBackAreGivenAwayFirst(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		c, bus := newClock(t, rdb)
		var jobs []coord.RateJob
		for i := range 400 {
			jobs = append(jobs, hundred(fmt.Sprint(i)))
		}
		before, _, err := bus.Reserve(t.Context(), jobs, 0)
		must(t, err)
		must(t, bus.Unreserve(t.Context(), jobs[150:250]))
		must(t, bus.Unreserve(t.Context(), jobs[150:250])) // a second time gives nothing more
		must(t, bus.Unreserve(t.Context(), jobs[:10]))     // they have started: nothing is given back
		var more []coord.RateJob
		for i := range 101 {
			more = append(more, hundred(fmt.Sprint("new ", i)))
		}
		after, _, err := bus.Reserve(t.Context(), more, 0)
		must(t, err)
		if !slices.Equal(after[:100], before[150:250]) {
			t.Errorf("new jobs wait %v, want the instants %v that were given back", after, before[150:250])
		}
		if after[100] <= before[399] {
			t.Errorf("one more waits %v, want the end of the line after %v", after[100], before[399])
		}
		c.pass(t, before[399])
		if wait, _, err := bus.Reserve(t.Context(), jobs[399:], 0); err != nil || wait[0] != 0 {
			t.Errorf("the last of the line: got %v, %v, want 0", wait, err)
		}
	})
}

func TestBeyondTheHorizonAJobIsParkedAndNothingIsKept(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		c, bus := newClock(t, rdb)
		var jobs []coord.RateJob
		for i := range 300 {
			j := hundred(fmt.Sprint(i))
			j.Rates[0].N, j.Rates[0].Per = 2, time.Second
			jobs = append(jobs, j)
		}
		wait, parked, err := bus.Reserve(t.Context(), jobs, 0)
		must(t, err)
		n := slices.Index(parked, true)
		if n < 115 || n > 121 || slices.Contains(parked[n:], false) || wait[n] != time.Minute || wait[n-1] > time.Minute {
			t.Errorf("%d jobs of 2/s got instants, the last after %v; the next waits %v; want all of a minute", n, wait[n-1], wait[n])
		}
		c.pass(t, 30*time.Second)
		wait, parked, err = bus.Reserve(t.Context(), jobs[n:n+1], 0)
		must(t, err)
		if parked[0] || wait[0] <= 29*time.Second || wait[0] > 32*time.Second {
			t.Errorf("half a minute later: got %v, parked %v, want the end of the line", wait[0], parked[0])
		}
	})
}
