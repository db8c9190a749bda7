package worker

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// rateHorizon is how far ahead a start is promised; a job beyond it is put off to there and asks again.
const rateHorizon = time.Minute

// rateMargin lengthens the windows of a share: a job starts a few milliseconds after the instant that it was given.
const rateMargin = 1.02

// shares decide about rates while Redis cannot: each process keeps to its share of every limit, the limit divided by the
// live workers. What is lost of a fraction accrues, and a start waits until it is whole: a share of a quarter lets one job
// start in four windows. All times are local.
type shares struct {
	mu   sync.Mutex
	keys map[string]*share
}

// share is this process' part of one rate. The bookings are starts, and promises to jobs that were put off. A promise belongs
// to no job: the one that was put off may come due in another process, and one of that in this.
type share struct {
	tokens   float64 // weight that may start, at last
	last     time.Time
	bookings []booking // by time: those of the window before last, and what was promised
	per      time.Duration
}

type booking struct {
	at      time.Time
	weight  int
	promise bool // nobody has started on it
}

// take books a start in all rates of a job, not before so long from now, and returns how long the job has to wait. One that
// must wait longer than the horizon waits for that long, and nothing is booked.
func (s *shares) take(rates []job.Key, workers int, notBefore time.Duration, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(rates, func(k job.Key) bool { return k.N() < 1 }) {
		return rateHorizon // closed
	}
	at := now.Add(max(notBefore, 0))
	for settled := false; !settled; {
		settled = true
		for _, k := range rates {
			if t := s.shareLocked(k, workers, now).earliest(k, workers, at, now); t.After(at) {
				at, settled = t, false
			}
		}
	}
	if at.Sub(now) > rateHorizon {
		return rateHorizon
	}
	for _, k := range rates {
		s.keys[k.Name()].book(k, workers, at, now)
	}
	return at.Sub(now)
}

// shareLocked returns the share of a rate. A new one begins with what accrues in one window: a process that has just started
// may not know what ran before.
func (s *shares) shareLocked(k job.Key, workers int, now time.Time) *share {
	if s.keys == nil {
		s.keys = make(map[string]*share)
	}
	x := s.keys[k.Name()]
	if x == nil {
		s.sweepLocked(now)
		x = &share{tokens: part(k, workers), last: now}
		s.keys[k.Name()] = x
	}
	x.per = window(k)
	return x
}

// sweepLocked forgets rates that nobody has asked for in a while.
func (s *shares) sweepLocked(now time.Time) {
	for name, x := range s.keys {
		if now.Sub(x.last) > rateHorizon+2*x.per {
			delete(s.keys, name)
		}
	}
}

func part(k job.Key, workers int) float64 { return float64(k.N()) / float64(max(workers, 1)) }

func window(k job.Key) time.Duration { return time.Duration(float64(k.Per()) * rateMargin) }

// earliest returns when a start has room, from an instant on. A job that has come takes a promise if what really started
// leaves room, even one to come: the job that it was made to may have come due elsewhere. All others stand behind what was
// promised.
func (s *share) earliest(k job.Key, workers int, from, now time.Time) time.Time {
	part, cost := part(k, workers), k.Cost()
	most := max(int(math.Ceil(part)), cost)
	if i := s.promised(k, now); i >= 0 && !from.After(now) {
		at := s.roomFrom(now, most-cost, false)
		if at.Equal(now) || !s.bookings[i].at.After(now) {
			return at
		}
	}
	at := later(from, s.last)
	if s.last.After(now) { // an even flow: in a burst one job that starts late takes the time of all that follow
		at = later(from, s.last.Add(time.Duration(float64(cost)/part*float64(s.per))))
	}
	if lack := float64(cost) - s.accrued(k, workers, at); lack > 1e-9 {
		at = at.Add(time.Duration(math.Ceil(lack / part * float64(s.per))))
	}
	return s.roomFrom(at, most-cost, true)
}

// roomFrom returns the first instant from at on, which is not before any booking that counts, whose window holds at most some
// weight: of what started, or also of what is promised.
func (s *share) roomFrom(at time.Time, most int, promises bool) time.Time {
	sum := 0
	for _, b := range s.bookings {
		if promises || !b.promise {
			sum += b.weight
		}
	}
	for _, b := range s.bookings {
		if b.promise && !promises {
			continue
		}
		if sum <= most && b.at.After(at.Add(-s.per)) {
			break
		}
		sum -= b.weight
		if out := b.at.Add(s.per); sum+b.weight > most && out.After(at) {
			at = out
		}
	}
	return at
}

// promised returns the booking that a job which has come may start on: the first promise that is not so old that no window
// holds it.
func (s *share) promised(k job.Key, now time.Time) int {
	return slices.IndexFunc(s.bookings, func(b booking) bool {
		return b.promise && b.weight == k.Cost() && b.at.After(now.Add(-s.per))
	})
}

// accrued is the weight that may start at an instant: at most one window's.
func (s *share) accrued(k job.Key, workers int, at time.Time) float64 {
	part := part(k, workers)
	grown := s.tokens + part*float64(at.Sub(s.last))/float64(s.per)
	return min(grown, max(part, float64(k.Cost()), 1))
}

func (s *share) book(k job.Key, workers int, at, now time.Time) {
	s.forget(now)
	if i := s.promised(k, now); i >= 0 && !at.After(now) {
		s.bookings = slices.Delete(s.bookings, i, i+1)
	} else {
		s.tokens = s.accrued(k, workers, later(at, s.last)) - float64(k.Cost())
		s.last = later(at, s.last)
	}
	i := len(s.bookings)
	for ; i > 0 && s.bookings[i-1].at.After(at); i-- {
	}
	s.bookings = slices.Insert(s.bookings, i, booking{at: at, weight: k.Cost(), promise: at.After(now)})
}

// forget drops what no window holds any more.
func (s *share) forget(now time.Time) {
	i := 0
	for ; i < len(s.bookings) && !s.bookings[i].at.After(now.Add(-s.per)); i++ {
	}
	s.bookings = slices.Delete(s.bookings, 0, i)
}

// giveBack makes a start that did not take place a promise to the next job.
func (s *shares) giveBack(rates []job.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range rates {
		x := s.keys[k.Name()]
		if x == nil {
			continue
		}
		for i := len(x.bookings) - 1; i >= 0; i-- {
			if b := &x.bookings[i]; !b.promise && b.weight == k.Cost() {
				b.promise = true
				break
			}
		}
	}
}
