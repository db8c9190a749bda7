package run

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/sweeper"
	"github.com/weirq/weir/pkg/worker"
)

// lockLimit is how long the state of a healthy process can be locked.
const lockLimit = 2 * time.Second

// snapshot reads the state of a loop and says when it does not come: whoever holds its locks stands still.
func snapshot[S any](read func() S) (s S, ok bool) {
	got := make(chan S, 1)
	go func() { got <- read() }() // never ends only if the process is beyond help
	timer := time.NewTimer(lockLimit)
	defer timer.Stop()
	select {
	case s = <-got:
		return s, true
	case <-timer.C:
		return s, false
	}
}

const locked = "the state of this process has been locked for 2s"

// busInfo says how Redis is; it does not count for readiness.
func busInfo(bus *coord.Bus) string {
	switch {
	case !bus.Enabled():
		return "redis: off"
	case bus.Healthy():
		return "redis: ok"
	}
	return "redis: away; work goes on from postgres alone"
}

// workerHealth judges a worker.
type workerHealth struct {
	phase                phase
	stats                func() worker.Stats
	bus                  *coord.Bus
	contact              *contact
	lease, poll, connect time.Duration

	mu    sync.Mutex
	stuck time.Time // since when claims seem to stand still; zero: they do not
}

// settle is how long claims must seem to stand still before a worker is called dead: a slot that was freed a moment ago is
// claimed for at once, but not sooner.
const settle = 10 * time.Second

// live implements health. That a try fails is the database's affair; that nothing is even tried is ours.
func (h *workerHealth) live() string {
	s, ok := snapshot(h.stats)
	if !ok {
		return locked
	}
	if h.phase.Load() != serving {
		return ""
	}
	// With a lease URL of their own renewals pass the contact by.
	tried := min(h.contact.sinceTried(), sinceOr(s.RenewedAt, h.contact.born))
	if limit := 2*h.lease + h.connect; tried > limit {
		return fmt.Sprintf("no statement was tried for %v: the loops stand still", tried.Round(time.Second))
	}
	return h.claims(s)
}

// pollEvery is how seldom a worker with a free slot polls.
func (h *workerHealth) pollEvery() time.Duration {
	if h.poll == 0 {
		return 30 * time.Second
	}
	return h.poll
}

// isFree reports whether a worker can claim at all; one that cannot does not poll either.
func isFree(s worker.Stats) bool { return s.Running < s.Slots && s.Unwritten == 0 }

// claims tells whether the loop that claims stands still although it could claim.
func (h *workerHealth) claims(s worker.Stats) string {
	poll, free := h.pollEvery(), isFree(s)
	silent := sinceOr(s.PolledAt, h.contact.born)
	answers := sinceOr(s.RenewedAt, h.contact.born) < h.lease
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !answers || !free || silent < 3*poll+time.Minute:
		h.stuck = time.Time{}
	case h.stuck.IsZero():
		h.stuck = time.Now()
	case time.Since(h.stuck) > settle:
		return fmt.Sprintf("the last poll was %v ago: the loop that claims stands still", silent.Round(time.Second))
	}
	return ""
}

// ready implements health.
func (h *workerHealth) ready() (reason, info string) {
	info = busInfo(h.bus)
	if reason = h.phase.notServing(); reason != "" {
		return reason, info
	}
	s, ok := snapshot(h.stats)
	switch {
	case !ok:
		return locked, info
	case s.RenewedAt.IsZero():
		return "starting: waiting for postgres", info
	case time.Since(s.RenewedAt) > h.lease*3/5: // two renewals were missed
		return fmt.Sprintf("postgres: the lease was last renewed %v ago", time.Since(s.RenewedAt).Round(time.Second)), info
	case s.PolledAt.IsZero():
		return "starting: no claim was answered yet", info
	case isFree(s) && time.Since(s.PolledAt) > 2*h.pollEvery()+settle:
		return fmt.Sprintf("postgres: the last poll that it answered was %v ago", time.Since(s.PolledAt).Round(time.Second)), info
	}
	return "", info
}

// sweeperHealth judges a sweeper.
type sweeperHealth struct {
	phase   phase
	stats   func() sweeper.Stats
	bus     *coord.Bus
	contact *contact
	lease   time.Duration
	off     []string

	mu   sync.Mutex
	runs map[string]progress
}

// progress is a count and since when it has stood still, as far as anybody looked.
type progress struct {
	count uint64
	since time.Time
}

// dutyLimit is how long a duty may take for one run beyond its rhythm.
const dutyLimit = 2 * time.Minute

// live implements health.
func (h *sweeperHealth) live() string {
	s, ok := snapshot(h.stats)
	if !ok {
		return locked
	}
	if h.phase.Load() != serving {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs = map[string]progress{}
	}
	for _, d := range s.Duties {
		if slices.Contains(h.off, d.Name) {
			continue
		}
		p, known := h.runs[d.Name]
		if !known || p.count != d.Runs {
			h.runs[d.Name] = progress{d.Runs, time.Now()}
			continue
		}
		if still := time.Since(p.since); still > 3*d.Every+dutyLimit {
			return fmt.Sprintf("the duty %s has not run for %v", d.Name, still.Round(time.Second))
		}
	}
	return ""
}

// ready implements health.
func (h *sweeperHealth) ready() (reason, info string) {
	info = busInfo(h.bus)
	if reason = h.phase.notServing(); reason != "" {
		return reason, info
	}
	s, ok := snapshot(h.stats)
	switch silent := h.contact.sinceAnswer(); {
	case !ok:
		return locked, info
	case s.Session.IsZero():
		return "starting: waiting for postgres", info
	case silent > h.lease*3/5:
		return fmt.Sprintf("postgres: the last answer was %v ago", silent.Round(time.Second)), info
	}
	if !s.Trusted {
		info += "\ndead processes: none is called dead before one full lease of own work"
	}
	return "", info
}

// sinceOr returns how long ago at was, or start if at is zero.
func sinceOr(at, start time.Time) time.Duration {
	if at.IsZero() {
		at = start
	}
	return time.Since(at)
}
