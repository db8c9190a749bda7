package coord_test

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirq/weir/pkg/coord"
)

// rateModel is what reserve.lua, unreserve.lua and hold.lua do, without Redis, without anything read late, pruned or kept
// for later. All jobs of a rate have one window. Times are in ms.
type rateModel struct {
	now   int64
	rates map[string]*modelRate
}

type modelRate struct {
	b                        int64
	started, promised, line  map[int64]int64 // weight by bucket
	jobs                     map[string]modelJob
	holes                    []modelHole
	tail, gap, late, lateGap float64
	hold                     int64
}

type modelJob struct {
	instant int64
	kind    int
}

type modelHole struct {
	at, weight int64
	from       string
}

const (
	inLine = iota
	promised
	started
)

// modelWant is a job's demand of one rate.
type modelWant struct {
	r            *modelRate
	now          int64
	n, w         int64
	strict, wide int64
	gap          float64
	at           float64
	hole         int
	late         bool
}

func newRateModel(now int64) *rateModel { return &rateModel{now: now, rates: map[string]*modelRate{}} }

func (m *rateModel) rate(name string, per int64) *modelRate {
	if m.rates[name] == nil {
		m.rates[name] = &modelRate{b: max(1, per/200), started: map[int64]int64{}, promised: map[int64]int64{}, line: map[int64]int64{}, jobs: map[string]modelJob{}}
	}
	return m.rates[name]
}

// fits asks all windows of so many buckets that hold x; behind: only those that end with it.
func (q *modelWant) fits(x, window int64, all, behind bool) bool {
	last := x + window - 1
	if behind {
		last = x
	}
	var sums int64
	for i := x - window + 1; i <= last; i++ {
		sums += q.in(i, all)
		if i >= x {
			if i > x {
				sums -= q.in(i-window, all)
			}
			if sums+q.w > q.n {
				return false
			}
		}
	}
	return true
}

func (q *modelWant) in(i int64, all bool) int64 {
	switch {
	case all:
		return q.r.started[i] + q.r.promised[i] + q.r.line[i]
	case i > q.now/q.r.b-4:
		return q.r.started[i] + q.r.promised[i]
	}
	return q.r.started[i]
}

func (q *modelWant) add(instant int64, kind int, w int64) {
	by := [...]map[int64]int64{inLine: q.r.line, promised: q.r.promised, started: q.r.started}
	by[kind][instant/q.r.b] += w
}

func (m *rateModel) end() int64 { return m.now + 60_000 }

// earliest is the first instant from t on with room; false: none within the horizon.
func (m *rateModel) earliest(q *modelWant, t float64, all bool) (float64, bool) {
	for x := int64(t) / q.r.b; x <= m.end()/q.r.b; x++ {
		if q.fits(x, q.wide, all, false) {
			return max(t, float64(x*q.r.b)), true
		}
	}
	return 0, false
}

func (m *rateModel) place(q *modelWant) (ok bool) {
	r := q.r
	from := float64(max(m.now, r.hold))
	q.hole = -1
	if r.tail > float64(m.now) {
		slices.SortFunc(r.holes, func(a, b modelHole) int {
			if a.at != b.at {
				return int(a.at - b.at)
			}
			return strings.Compare(holeText(a), holeText(b))
		})
		seen := 0
		for i, h := range r.holes {
			if float64(h.at) <= from {
				continue
			}
			if seen++; seen > 8 {
				break
			}
			if h.weight >= q.w && q.fits(h.at/r.b, q.wide, true, false) {
				q.at, q.hole = float64(h.at), i
				return true
			}
		}
		from = max(from, r.tail+max(q.gap, r.gap))
	}
	q.at, ok = m.earliest(q, from, true)
	return ok
}

func (m *rateModel) meet(qs []*modelWant, t float64, all bool) (float64, bool) {
	for again := true; again; {
		again = false
		for _, q := range qs {
			if all && q.at == t {
				continue
			}
			at, ok := m.earliest(q, t, all)
			if !ok {
				return 0, false
			}
			if at > t {
				t, again = at, true
			}
		}
	}
	return t, t <= float64(m.end())
}

func (q *modelWant) put(member string, instant int64, kind int) {
	q.add(instant, kind, q.w)
	q.r.jobs[member] = modelJob{instant, kind}
}

func (q *modelWant) take(j modelJob) { q.add(j.instant, j.kind, -q.w) }

func (m *rateModel) arrive(qs []*modelWant, member string, after int64) (int64, bool) {
	t := float64(m.now + after)
	for _, q := range qs {
		if !m.place(q) {
			return 0, false
		}
		t = max(t, q.at)
	}
	t, ok := m.meet(qs, t, true)
	if !ok {
		return 0, false
	}
	at := int64(math.Ceil(t))
	for _, q := range qs {
		switch {
		case at <= m.now:
			q.put(member, m.now, started)
		case q.at != t:
			q.put(member, at, promised)
		default:
			q.put(member, at, inLine)
			if q.hole < 0 {
				q.r.tail, q.r.gap = t, q.gap
				continue
			}
			h := q.r.holes[q.hole]
			q.r.holes = slices.Delete(q.r.holes, q.hole, q.hole+1)
			if h.weight > q.w {
				q.r.holes = append(q.r.holes, modelHole{int64(math.Ceil(t + q.gap)), h.weight - q.w, h.from})
			}
		}
	}
	return at - m.now, true
}

func (m *rateModel) start(qs []*modelWant, member string, kinds []int, after int64) (int64, bool) {
	ok := after <= 0
	for i, q := range qs {
		q.late = q.r.hold > m.now || !q.fits(m.now/q.r.b, q.strict, false, kinds[i] != inLine)
		ok = ok && !q.late
	}
	if ok {
		for _, q := range qs {
			q.put(member, m.now, started)
		}
		return 0, true
	}
	t := float64(m.now + after)
	for _, q := range qs {
		if q.late {
			t = max(t, float64(q.r.hold))
			if q.r.late > float64(m.now) {
				t = max(t, q.r.late+max(q.gap, q.r.lateGap))
			}
		}
	}
	t, ok = m.meet(qs, t, false)
	if !ok {
		return 0, false
	}
	for _, q := range qs {
		q.put(member, int64(math.Ceil(t)), promised)
		if q.late {
			q.r.late, q.r.lateGap = t, q.gap
		}
	}
	return int64(math.Ceil(t)) - m.now, true
}

// reserve returns the wait, or false for a job that is parked.
func (m *rateModel) reserve(j coord.RateJob) (int64, bool) {
	var qs []*modelWant
	var kinds []int
	after := max(0, j.NotBefore.Milliseconds())
	known, instant, opens, early := 0, int64(0), m.now+after, int64(10)
	for _, k := range j.Rates {
		q := &modelWant{now: m.now, r: m.rate(k.Name, k.Per.Milliseconds()), n: int64(k.N), w: int64(max(1, min(k.Weight, k.N)))}
		q.strict = (k.Per.Milliseconds()+q.r.b-1)/q.r.b + 2
		q.wide = q.strict + 2
		q.gap = float64(q.wide*q.r.b) / float64(q.n/q.w)
		qs = append(qs, q)
		had, ok := q.r.jobs[j.Member]
		if ok && had.instant <= m.now-60_000 {
			delete(q.r.jobs, j.Member)
			ok = false
		}
		kinds = append(kinds, had.kind)
		if ok {
			known++
			instant = max(instant, had.instant)
		}
		opens, early = max(opens, q.r.hold), min(early, 2*q.r.b)
	}
	if known == len(qs) && instant > m.now+early && instant >= opens {
		return instant - m.now, true
	}
	for _, q := range qs {
		if had, ok := q.r.jobs[j.Member]; ok {
			q.take(had)
			delete(q.r.jobs, j.Member)
		}
	}
	if known == len(qs) {
		return m.start(qs, j.Member, kinds, after)
	}
	return m.arrive(qs, j.Member, after)
}

func (m *rateModel) unreserve(j coord.RateJob) {
	for _, k := range j.Rates {
		r := m.rate(k.Name, k.Per.Milliseconds())
		had, ok := r.jobs[j.Member]
		if !ok || had.kind == started {
			continue
		}
		q := &modelWant{r: r, w: int64(max(1, min(k.Weight, k.N)))}
		q.take(had)
		delete(r.jobs, j.Member)
		if had.kind == inLine && had.instant > m.now {
			r.holes = append(r.holes, modelHole{had.instant, q.w, j.Member})
		}
	}
}

func holeText(h modelHole) string { return fmt.Sprintf("%d:%d:%s", h.at, h.weight, h.from) }
