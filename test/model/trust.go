package model

// trusts is the sweeper's right to call another dead: trust.go and pulse.go, beside a worker that renews whenever the
// database lets it. All that goes wrong is the database's or the machine's, so nobody may be called dead for it. Time goes in
// ticks, a renewal and a heartbeat in each.
type trusts struct {
	guarded
	faults int8
}

const leaseTicks = 4

type trustState struct {
	lease   int8 // what is left of the worker's, on the database clock
	trust   int8 // how long the sweeper has worked without a break
	crashed bool // the worker
	marked  bool
	faults  int8
	bad     int8
}

var trustWrongs = []string{"", "P8: a healthy process was called dead"}

func (m trusts) start() trustState { return trustState{lease: leaseTicks, faults: m.faults} }

func (m trusts) wrong(s trustState) string { return trustWrongs[s.bad] }

// A process that has crashed is called dead in the end; there is no other work.
func (m trusts) done(s trustState) bool { return s.marked || !s.crashed }

func (m trusts) next(s trustState, emit func(kind, step, trustState)) {
	if s.marked {
		return
	}
	if !s.crashed {
		t := s
		t.crashed = true
		emit(fault, step{"crash", -1, -1}, t)
	}
	m.tick(s, "tick", 1, s.trust+1, true, true, usual, emit)
	if s.faults == 0 {
		return
	}
	s.faults--
	held := func(g guard) int8 { // what a guard leaves of the trust
		if m.on(g) {
			return 0
		}
		return s.trust + 1
	}
	m.tick(s, "tick: commits hang", 1, held(trustWrites), false, false, fault, emit)
	m.tick(s, "tick: the database is away", 1, held(trustLease), false, false, fault, emit)
	m.tick(s, "tick: statements are as slow as a renewal", 1, held(strictGap), true, false, fault, emit)
	m.tick(s, "tick: the database clock is set", leaseTicks, held(clockCheck), true, true, fault, emit)
	m.tick(s, "tick: the machine stood still", leaseTicks, held(trustLease), true, true, fault, emit)
}

// tick lets time pass, then the sweeper looks, then the worker renews: the order that is worst for the worker.
func (m trusts) tick(s trustState, verb string, took, trust int8, marks, renews bool, k kind, emit func(kind, step, trustState)) {
	s.lease = max(s.lease-took, 0)
	s.trust = min(trust, leaseTicks)
	holds := s.trust == leaseTicks
	if !m.on(trustLease) {
		holds = s.trust > 0
	}
	if marks && holds && s.lease == 0 {
		s.marked = true
		if !s.crashed {
			s.bad = 1
		}
	}
	if renews && !s.crashed && !s.marked {
		s.lease = leaseTicks
	}
	emit(k, step{verb, -1, -1}, s)
}

// watches is the worker's own watchdog (doubt in session.go), which stops handlers that hold keys before their lease can have
// ended, however long renewals are on their way. The sweeper marks at the first moment it may.
type watches struct{ guarded }

type watchState struct {
	lease   int8 // what is left, on the database clock
	counts  int8 // the watchdog: since the last accepted renewal
	sent    int8 // how long ago the one under way was, from 1; 0: there is none
	reached bool // and it has been committed
	stopped bool
	bad     int8
}

const patienceTicks = leaseTicks - 1

var watchWrongs = []string{"", "P4: a handler with keys runs on after its lease"}

func (m watches) start() watchState { return watchState{lease: leaseTicks} }

func (m watches) wrong(s watchState) string { return watchWrongs[s.bad] }

func (m watches) done(watchState) bool { return true }

func (m watches) next(s watchState, emit func(kind, step, watchState)) {
	t := s
	t.lease--
	t.counts = min(t.counts+1, leaseTicks)
	if t.sent > 0 {
		t.sent = min(t.sent+1, leaseTicks+1)
	}
	t.stopped = t.counts >= patienceTicks
	if t.lease == 0 && !t.stopped {
		t.bad = 1
	}
	if t.lease > 0 { // else the session is dead, and a new one begins
		emit(usual, step{"tick", -1, -1}, t)
	} else if t.bad != 0 {
		emit(usual, step{"tick, and mark_dead_by", -1, -1}, t)
	}
	t = s
	switch {
	case s.sent == 0:
		t.sent = 1
		emit(usual, step{"renew: sent", -1, -1}, t)
	case !s.reached:
		t.reached, t.lease = true, leaseTicks
		emit(usual, step{"renew: commit", -1, -1}, t)
	default:
		t.counts = 0
		if m.on(fromSent) {
			t.counts = s.sent - 1
		}
		t.sent, t.reached = 0, false
		t.stopped = t.counts >= patienceTicks
		emit(usual, step{"renew: answered", -1, -1}, t)
	}
	if s.sent > 0 {
		t = s
		t.sent, t.reached = 0, false
		emit(fault, step{"renew: the answer is lost", -1, -1}, t)
	}
}
