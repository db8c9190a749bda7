package sweeper

import (
	"testing"
	"time"
)

const (
	testLease = 15 * time.Second
	testEvery = 3 * time.Second
)

// history drives a trust through time; the database clock goes along unless said otherwise.
type history struct {
	trust
	now, db time.Time
}

func newHistory() *history {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return &history{trust: trust{every: testEvery}, now: start, db: start.Add(-time.Hour)} // the clocks need not agree
}

func (h *history) pass(d time.Duration) { h.now, h.db = h.now.Add(d), h.db.Add(d) }

// beats commits n heartbeats on time, the last at now, with recover's ticks in between.
func (h *history) beats(n int) {
	for range n {
		for range 3 {
			h.pass(time.Second)
			h.tick(h.now, time.Second)
		}
		h.beatNow()
	}
}

func (h *history) beatNow() {
	sent := h.now
	h.pass(5 * time.Millisecond)
	h.beat(sent, h.now, h.db)
}

// trusted is a history that has lasted for a minute.
func trusted(t *testing.T) *history {
	t.Helper()
	h := newHistory()
	h.beats(20)
	if !h.holds(h.now, testLease) {
		t.Fatal("a minute of heartbeats gives no trust")
	}
	return h
}

// regains checks that trust is gone, and that it takes one full lease of heartbeats to come back.
func (h *history) regains(t *testing.T) {
	t.Helper()
	if h.holds(h.now, testLease) {
		t.Error("trust goes on")
	}
	h.beats(4) // when the last of them is answered, the first of the new stretch is at most 12 s old
	if h.holds(h.now, testLease) {
		t.Error("trust is back before a full lease")
	}
	h.beats(3)
	if !h.holds(h.now, testLease) {
		t.Error("trust is not back after a full lease")
	}
}

func TestTrustTakesOneFullLeaseOfOwnWork(t *testing.T) {
	t.Parallel()
	h := newHistory()
	if h.holds(h.now, testLease) {
		t.Error("a fresh sweeper trusts itself")
	}
	h.beatNow()
	first := h.now
	for h.now.Sub(first) < testLease-testEvery {
		h.beats(1)
	}
	if h.holds(first.Add(testLease-time.Millisecond), testLease) {
		t.Error("trust before a full lease")
	}
	h.beats(1)
	if !h.holds(h.now, testLease) {
		t.Error("no trust after a full lease")
	}
	if h.holds(h.now, time.Minute) {
		t.Error("the lease of a patient process was not waited for")
	}
}

func TestReadsWithoutCommitsGiveNoTrust(t *testing.T) {
	t.Parallel()
	h := newHistory()
	for range 60 { // the duty reads, its heartbeat hangs
		h.pass(time.Second)
		h.tick(h.now, time.Second)
		h.ran(time.Millisecond, testEvery)
	}
	if h.holds(h.now, testLease) {
		t.Error("trust without a committed write")
	}
	h = trusted(t)
	for range 5 {
		h.pass(time.Second)
		h.tick(h.now, time.Second)
	}
	if h.holds(h.now, testLease) {
		t.Error("trust while the last committed write is overdue")
	}
}

func TestWhatStoodStillEndsTrust(t *testing.T) {
	t.Parallel()
	cases := map[string]func(h *history){
		"a tick more than a second late": func(h *history) {
			h.pass(2200 * time.Millisecond)
			h.tick(h.now, time.Second)
		},
		"a statement as slow as a renewal": func(h *history) {
			h.pass(500 * time.Millisecond)
			h.ran(600*time.Millisecond, 600*time.Millisecond)
		},
		"a heartbeat that was not committed": func(h *history) { h.failed() },
		"a late heartbeat, though ticks went on": func(h *history) {
			for range 5 {
				h.pass(time.Second)
				h.tick(h.now, time.Second)
			}
			h.beatNow()
		},
		"a database clock that was set forward": func(h *history) {
			h.pass(testEvery)
			h.tickAt = h.now
			h.db = h.db.Add(1100 * time.Millisecond)
			h.beatNow()
		},
		"a database clock that was set back": func(h *history) {
			h.pass(testEvery)
			h.tickAt = h.now
			h.db = h.db.Add(-1100 * time.Millisecond)
			h.beatNow()
		},
		"a machine that slept, our clock with it": func(h *history) {
			h.db = h.db.Add(time.Minute)
			h.beatNow()
		},
	}
	for name, happen := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := trusted(t)
			happen(h)
			h.regains(t)
		})
	}
}

func TestOrdinaryUnevennessKeepsTrust(t *testing.T) {
	t.Parallel()
	h := trusted(t)
	h.pass(1900 * time.Millisecond)
	h.tick(h.now, time.Second)
	h.ran(500*time.Millisecond, 600*time.Millisecond)
	h.pass(testEvery - 1900*time.Millisecond + 900*time.Millisecond)
	h.tick(h.now, 2*time.Second)
	h.db = h.db.Add(900 * time.Millisecond)
	h.beatNow()
	if !h.holds(h.now, testLease) {
		t.Error("trust is gone")
	}
}

func TestAnOutageEndsTrustForALeaseAfterItsEnd(t *testing.T) {
	t.Parallel()
	h := trusted(t)
	for range 45 {
		h.pass(time.Second)
		h.tick(h.now, time.Second)
		h.failed()
		if h.holds(h.now, testLease) {
			t.Fatal("trust during the outage")
		}
	}
	h.beatNow()
	h.regains(t)
}

func TestAMarkIsBoundToTheDatabaseTimeOfItsDecision(t *testing.T) {
	t.Parallel()
	h := trusted(t)
	h.pass(2 * time.Second)
	by := h.by(h.now)
	if late := by.Sub(h.db); late <= 900*time.Millisecond || late > tolerance {
		t.Errorf("a mark may be made %v after the decision, want %v at most", late, tolerance)
	}
}
