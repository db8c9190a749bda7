package main

import (
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// ledger has an entry for every job of the demo: when it was sent, what the workers say of its starts, what the sweeper
// says of its recovery, and how it ended. A worker reports before its handler runs, into a pipe, which is not lost when
// it is killed. The ledger is safe for concurrent use.
type ledger struct {
	mu        sync.Mutex
	entries   map[job.ID]*entry
	running   map[job.ID]*entry // started and not known to have ended
	completed int
	failed    int
}

// entry is one job. Times are local, of this machine.
type entry struct {
	isJob       bool      // a checksum; else a probe
	called      time.Time // when Enqueue was called, of a probe
	starts      int
	first, last time.Time // starts
	isRecovered bool
	end         job.State // empty: not known
}

func newLedger() *ledger {
	return &ledger{entries: map[job.ID]*entry{}, running: map[job.ID]*entry{}}
}

// entryLocked makes the entry if need be: a job may start before its Enqueue has returned.
func (l *ledger) entryLocked(id job.ID) *entry {
	e := l.entries[id]
	if e == nil {
		e = &entry{}
		l.entries[id] = e
	}
	return e
}

// enqueued notes checksum jobs.
func (l *ledger) enqueued(ids []job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.entryLocked(id).isJob = true
	}
}

// probed notes a probe and when it was sent.
func (l *ledger) probed(id job.ID, called time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entryLocked(id).called = called
}

// start notes that a handler is about to run.
func (l *ledger) start(id job.ID, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entryLocked(id)
	if e.starts == 0 || at.Before(e.first) {
		e.first = at
	}
	if at.After(e.last) {
		e.last = at
	}
	e.starts++
	if e.end == "" {
		l.running[id] = e
	}
}

// recover notes that the sweeper gave a job back.
func (l *ledger) recover(id job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entryLocked(id).isRecovered = true
}

// end notes how a job ended.
func (l *ledger) end(id job.ID, state job.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entryLocked(id)
	delete(l.running, id)
	if e.end == "" && e.isJob {
		if state == job.Completed {
			l.completed++
		} else {
			l.failed++
		}
	}
	e.end = state
}

// ended counts the checksum jobs that are known to have ended.
func (l *ledger) ended() (completed, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.completed, l.failed
}

// open returns what was started and is not known to have ended.
func (l *ledger) open() []job.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]job.ID, 0, len(l.running))
	for id := range l.running {
		ids = append(ids, id)
	}
	return ids
}

// which returns the ids of the entries that are so.
func (l *ledger) which(is func(*entry) bool) []job.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []job.ID
	for id, e := range l.entries {
		if is(e) {
			ids = append(ids, id)
		}
	}
	return ids
}

// countJobs counts the checksum jobs among ids.
func (l *ledger) countJobs(ids []job.ID) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if e := l.entries[id]; e != nil && e.isJob {
			n++
		}
	}
	return n
}

// since returns how many of ids were started after t, and when the last of them was.
func (l *ledger) since(ids []job.ID, t time.Time) (n int, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if e := l.entries[id]; e.last.After(t) {
			n++
			if e.last.After(last) {
				last = e.last
			}
		}
	}
	return n, last
}

// pickups returns, for every probe that was started, the time from the call of Enqueue to the handler.
func (l *ledger) pickups() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []time.Duration
	for _, e := range l.entries {
		if !e.isJob && e.starts > 0 && !e.called.IsZero() {
			all = append(all, e.first.Sub(e.called))
		}
	}
	return all
}
