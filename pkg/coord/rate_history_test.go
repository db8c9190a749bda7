package coord_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/coord"
)

// rateHistory runs random calls against Redis and the model.
type rateHistory struct {
	rt    *rapid.T
	c     *clock
	bus   *coord.Bus
	model *rateModel
	rates []coord.RateKey
	jobs  []coord.RateJob
	begun map[string]int64 // by rate and member: when it was let in last
}

func TestRatesDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		rapid.Check(t, func(rt *rapid.T) {
			c, bus := newClock(t, rdb)
			h := &rateHistory{rt: rt, c: c, bus: bus, model: newRateModel(c.ms), begun: map[string]int64{}}
			for _, name := range []string{"r", "r:1", "{r}\n🙂 *"} {
				per := rapid.SampledFrom([]int{7, 30, 30, 90, 450}).Draw(rt, "per")
				h.rates = append(h.rates, coord.RateKey{Name: name, N: rapid.IntRange(1, 6).Draw(rt, "N"), Per: time.Duration(per) * time.Millisecond})
			}
			rt.Repeat(map[string]func(*rapid.T){
				"new":       func(*rapid.T) { h.reserve(h.draw(rapid.IntRange(1, 6).Draw(rt, "jobs"))) },
				"again":     func(*rapid.T) { h.again() },
				"due":       func(*rapid.T) { h.due() },
				"unreserve": func(*rapid.T) { h.unreserve() },
				"hold":      func(*rapid.T) { h.hold() },
				"time": func(*rapid.T) {
					c.pass(rt, time.Duration(rapid.SampledFrom([]int{0, 1, 2, 5, 11, 40, 300, 70_000}).Draw(rt, "ms"))*time.Millisecond)
				},
				"flush": func(*rapid.T) {
					if rapid.IntRange(0, 4).Draw(rt, "really") == 0 {
						c.flush(rt, c.namespace())
						h.model, h.begun = newRateModel(c.ms), map[string]int64{}
					}
				},
			})
		})
	})
}

func (h *rateHistory) draw(n int) []coord.RateJob {
	from := len(h.jobs)
	for range n {
		j := coord.RateJob{Member: fmt.Sprintf("job %d:1", len(h.jobs))}
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 1, 3, rapid.ID).Draw(h.rt, "rates") {
			r := h.rates[i]
			r.Weight = rapid.SampledFrom([]int{1, 1, 1, 1, 2, 3, 9}).Draw(h.rt, "weight")
			j.Rates = append(j.Rates, r)
		}
		if rapid.IntRange(0, 9).Draw(h.rt, "later") == 0 {
			j.NotBefore = time.Duration(rapid.IntRange(1, 200).Draw(h.rt, "not before")) * time.Millisecond
		}
		h.jobs = append(h.jobs, j)
	}
	return h.jobs[from:]
}

func (h *rateHistory) reserve(jobs []coord.RateJob) {
	wait, parked, err := h.bus.Reserve(context.Background(), jobs, 0)
	if err != nil {
		h.rt.Fatalf("reserve: %v", err)
	}
	h.model.now = h.c.ms
	for i, j := range jobs {
		ms, ok := h.model.reserve(j)
		if !ok {
			ms = 60_000
		}
		if wait[i] != time.Duration(ms)*time.Millisecond || parked[i] == ok {
			h.rt.Fatalf("%+v at %d: got %v, parked %v; want %dms, parked %v", j, h.c.ms, wait[i], parked[i], ms, !ok)
		}
		for _, r := range j.Rates {
			delete(h.begun, r.Name+"/"+j.Member) // it asks again, so it had not started
			if ms == 0 {
				h.begun[r.Name+"/"+j.Member] = h.c.ms
			}
		}
	}
	for _, r := range h.rates {
		h.window(r)
	}
}

// window checks the limit itself: the weight that started in the window that ends now.
func (h *rateHistory) window(r coord.RateKey) {
	sum := 0
	for _, j := range h.jobs {
		at, ok := h.begun[r.Name+"/"+j.Member]
		if !ok || at <= h.c.ms-r.Per.Milliseconds() {
			continue
		}
		for _, k := range j.Rates {
			if k.Name == r.Name {
				sum += min(k.Weight, k.N)
			}
		}
	}
	if sum > r.N {
		h.rt.Fatalf("rate %q: %d started within %v, limit %d", r.Name, sum, r.Per, r.N)
	}
}

func (h *rateHistory) again() {
	if len(h.jobs) == 0 {
		return
	}
	i := rapid.IntRange(max(0, len(h.jobs)-12), len(h.jobs)-1).Draw(h.rt, "job")
	h.jobs[i].NotBefore = 0
	h.reserve(h.jobs[i : i+1])
}

// due goes to the instant of a job that waits and asks for it.
func (h *rateHistory) due() {
	for i, j := range h.jobs {
		had, ok := h.model.rate(j.Rates[0].Name, j.Rates[0].Per.Milliseconds()).jobs[j.Member]
		if !ok || had.kind == started || had.instant < h.c.ms {
			continue
		}
		h.c.set(h.rt, had.instant+int64(rapid.IntRange(0, 3).Draw(h.rt, "late")))
		h.jobs[i].NotBefore = 0
		h.reserve(h.jobs[i : i+1])
		return
	}
}

func (h *rateHistory) unreserve() {
	if len(h.jobs) == 0 {
		return
	}
	i := rapid.IntRange(max(0, len(h.jobs)-12), len(h.jobs)-1).Draw(h.rt, "job")
	h.model.now = h.c.ms
	h.model.unreserve(h.jobs[i])
	if err := h.bus.Unreserve(context.Background(), h.jobs[i:i+1]); err != nil {
		h.rt.Fatalf("unreserve: %v", err)
	}
}

func (h *rateHistory) hold() {
	r := rapid.SampledFrom(h.rates).Draw(h.rt, "rate")
	ms := int64(rapid.IntRange(1, 300).Draw(h.rt, "hold"))
	m := h.model.rate(r.Name, r.Per.Milliseconds())
	m.hold = max(m.hold, h.c.ms+ms)
	if err := h.bus.HoldRate(context.Background(), r.Name, time.Duration(ms)*time.Millisecond); err != nil {
		h.rt.Fatalf("hold: %v", err)
	}
}
