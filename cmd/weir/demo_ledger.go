package main

import (
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// ledger is what the workers say of the jobs that they start, and the producer of the probes that it sent. A worker
// reports before its handler runs, into a pipe, which is not lost when it is killed. It is safe for concurrent use.
type ledger struct {
	mu     sync.Mutex
	starts map[job.ID]starts
	probes map[job.ID]time.Time // when Enqueue was called
}

// starts are the handlers that began for one job.
type starts struct {
	n           int
	first, last time.Time
}

func newLedger() *ledger {
	return &ledger{starts: map[job.ID]starts{}, probes: map[job.ID]time.Time{}}
}

func (l *ledger) started(id job.ID, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.starts[id]
	if s.n == 0 || at.Before(s.first) {
		s.first = at
	}
	if at.After(s.last) {
		s.last = at
	}
	s.n++
	l.starts[id] = s
}

func (l *ledger) probed(id job.ID, called time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probes[id] = called
}

// since returns how many of ids began after t, and when the last of them did.
func (l *ledger) since(ids []job.ID, t time.Time) (n int, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if s := l.starts[id]; s.last.After(t) {
			n++
			if s.last.After(last) {
				last = s.last
			}
		}
	}
	return n, last
}

// twice counts those of ids whose handler began more than once.
func (l *ledger) twice(ids []job.ID) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if l.starts[id].n > 1 {
			n++
		}
	}
	return n
}

// pickups returns, for every probe that began, the time from the call of Enqueue to the handler. Both are read on this
// machine's clock.
func (l *ledger) pickups() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []time.Duration
	for id, called := range l.probes {
		if s, ok := l.starts[id]; ok {
			all = append(all, s.first.Sub(called))
		}
	}
	return all
}

// probeIDs returns the probes that were stored.
func (l *ledger) probeIDs() []job.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]job.ID, 0, len(l.probes))
	for id := range l.probes {
		ids = append(ids, id)
	}
	return ids
}
