package coord

import (
	"math/rand/v2"
	"sync"
	"time"
)

// The breaker opens after so many failures in a row, first for minOpen, then twice as long each time up to maxOpen.
// Each wait is drawn from its upper half, so that the processes of a fleet do not probe in step.
const (
	maxFailures = 3
	minOpen     = 250 * time.Millisecond
	maxOpen     = 5 * time.Second
)

// breaker makes a dead Redis cost microseconds: while it is open no command is sent. When the wait is over one command
// goes through as a probe, and its outcome closes the breaker or opens it again. Times are the local monotonic clock.
type breaker struct {
	mu       sync.Mutex
	failures int           // in a row, while closed
	wait     time.Duration // of the current opening; zero means closed
	until    time.Time     // when the next probe may go
	probing  bool          // a probe is on its way; all others are refused meanwhile
	opens    uint64        // how often it went from closed to open
}

// outcome is what a command tells about the server.
type outcome int

const (
	answered    outcome = iota // the server is there, whatever it said
	unavailable                // no answer, or one that says "not now"
)

// change is what an outcome did to the breaker.
type change int

const (
	unchanged change = iota
	opened
	closed
)

// allow reports whether a command may be sent now, and whether it is the probe.
func (b *breaker) allow(now time.Time) (probe, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait == 0 {
		return false, true
	}
	if b.probing || now.Before(b.until) {
		return false, false
	}
	b.probing = true
	return true, true
}

// settle takes in how a command that was allowed went. One that left while the breaker was closed and comes back when it
// is open changes nothing: the probe decides.
func (b *breaker) settle(now time.Time, probe bool, o outcome) change {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
		if o == answered {
			b.failures, b.wait = 0, 0
			return closed
		}
		b.openLocked(now, min(2*b.wait, maxOpen))
		return unchanged
	}
	if b.wait != 0 {
		return unchanged
	}
	if o == answered {
		b.failures = 0
		return unchanged
	}
	b.failures++
	if b.failures < maxFailures {
		return unchanged
	}
	b.opens++
	b.openLocked(now, minOpen)
	return opened
}

func (b *breaker) openLocked(now time.Time, wait time.Duration) {
	b.wait = wait
	b.until = now.Add(jitter(wait))
}

// hurry ends the wait: there is news that the server is back.
func (b *breaker) hurry(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait != 0 {
		b.until = now
	}
}

func (b *breaker) state() (isClosed bool, opens uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait == 0, b.opens
}

// jitter is a random duration from the upper half of d.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}
