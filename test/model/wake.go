package model

// wakes is how jobs find a worker that sleeps: producers that commit and then send a hint, the idle set in Redis, and the
// loop of dispatch.go in two workers. Polls do not happen unless Redis was emptied: who needs one otherwise has lost a hint.
type wakes struct {
	guarded
	jobs, slots int8
	knows       [2]bool // the kind of the jobs
	// What happens besides, once.
	crash, close, flush, handOver bool
	// Not only where no hint is being followed. A slot that is handed over between a hint and its claim takes the hint with
	// it: the job waits for the sweeper's next look (due.sql), half a second at most.
	strict bool
}

type wakeState struct {
	toCome   int8 // jobs that are not enqueued yet
	due      int8 // committed and not claimed
	announce int8 // committed, their hint not sent
	worker   [2]wakeWorker
	spent    bool // the fault has happened
	bad      int8
}

type wakeWorker struct {
	up, closing bool
	phase       int8
	isListed    bool // stands in the idle set
	registered  bool // believes so
	pending     bool
	hungry      bool
	busy        bool // the last claim came back full
	skipped     bool // this round left the registration out for that
	poll        bool // this round is one
	polled      bool // since Redis was emptied
	running     int8
	hints       int8 // sent to it, not delivered yet
}

// Phases of the dispatcher: the step that it is about to take.
const (
	clears int8 = iota
	looksForRoom
	registers
	claims
	passesOn
	fallsAsleep
	sleeps
)

var wakeWrongs = []string{"", "P6: a job waits for a poll while a worker with a free slot sleeps"}

type wakeEmit = func(kind, step, wakeState)

func (m wakes) start() wakeState {
	s := wakeState{toCome: m.jobs}
	for w := range s.worker {
		s.worker[w].up = true
	}
	return s
}

func (m wakes) done(s wakeState) bool {
	return s.toCome+s.due+s.worker[0].running+s.worker[1].running == 0
}

func (m wakes) wrong(s wakeState) string {
	if m.isForgotten(&s) {
		return wakeWrongs[1]
	}
	return wakeWrongs[s.bad]
}

// isForgotten reports whether a job is due that nobody will look for before the next poll although somebody could.
func (m wakes) isForgotten(s *wakeState) bool {
	if s.due == 0 || s.announce > 0 {
		return false
	}
	able := false
	for w := range s.worker {
		p := &s.worker[w]
		switch {
		case p.up && p.hints > 0:
			return false
		case !p.up || p.closing:
		case p.phase != sleeps || p.pending || m.flush && s.spent && !p.polled:
			return false
		default:
			able = able || m.knows[w] && p.running < m.slots
		}
	}
	return able
}

func (m wakes) next(s wakeState, emit wakeEmit) {
	if s.toCome > 0 {
		t := s
		t.toCome--
		t.due++
		t.announce++
		emit(usual, step{"enqueue: commit", -1, -1}, t)
	}
	if s.announce > 0 {
		t := s
		t.announce--
		m.wake(t, -1, "wake.lua", emit)
	}
	for w := range s.worker {
		if p := &s.worker[w]; p.hints > 0 {
			m.onHint(s, w, emit)
		}
		if p := &s.worker[w]; p.up && !p.closing {
			m.dispatch(s, w, emit)
		}
		m.slotFreed(s, w, emit)
		m.trouble(s, w, emit)
	}
	if m.flush && !s.spent {
		s.spent = true
		s.worker[0].isListed, s.worker[1].isListed = false, false
		emit(fault, step{"FLUSHALL", -1, -1}, s)
	}
}

// wake is wake.lua for a hint of one job: it goes to any that stands in the set, the asker apart, until somebody hears it.
func (m wakes) wake(s wakeState, asker int, verb string, emit wakeEmit) {
	found := false
	for w := range s.worker {
		p := &s.worker[w]
		if w == asker || !p.isListed {
			continue
		}
		t := s
		t.worker[w].isListed = false
		switch {
		case p.up:
			found = true
			t.worker[w].hints++
			emit(usual, step{verb + " wakes worker", w, -1}, t)
		case m.on(receivers):
			s = t // out of the set: the next is asked
		default:
			found = true
			emit(usual, step{verb + " wakes nobody: dead is worker", w, -1}, t)
		}
	}
	if !found {
		emit(usual, step{verb + " finds nobody", -1, -1}, s)
	}
}

// onHint is wake.go: a hint is taken or passed on.
func (m wakes) onHint(s wakeState, w int, emit wakeEmit) {
	p := &s.worker[w]
	p.hints--
	if !p.up {
		emit(usual, step{"a hint is lost with worker", w, -1}, s)
		return
	}
	p.registered = false
	p.pending = true // also where it is passed on: a slot that is freed looks there, or it registers again
	forwards := false
	switch {
	case p.closing:
		forwards, p.pending = m.on(closeForward), false
	case !m.knows[w]:
		forwards = m.on(kindForward)
	case p.running == m.slots:
		forwards = m.on(busyForward)
	}
	if forwards {
		m.wake(s, w, "onHint: passed on, wake.lua", emit)
		return
	}
	emit(usual, step{"onHint, worker", w, -1}, s)
}

// dispatch is the loop of dispatch.go, register.go and full.go.
func (m wakes) dispatch(s wakeState, w int, emit wakeEmit) {
	p := &s.worker[w]
	verb := ""
	switch p.phase {
	case clears:
		verb, p.phase = "clear, worker", looksForRoom
		if m.on(clearFirst) {
			p.pending = false
		}
	case looksForRoom:
		verb, p.phase, p.hungry = "room, worker", registers, true
		if p.running == m.slots {
			p.phase = fallsAsleep
		}
	case registers:
		verb, p.phase = "register, worker", claims
		if p.skipped = p.busy && !p.poll; !p.skipped && m.on(regFirst) {
			p.register(m.on(reregister))
		}
	case claims:
		m.claim(s, w, emit)
		return
	case passesOn:
		m.passOn(s, w, emit)
		return
	case fallsAsleep:
		verb, p.phase = "sleep, worker", sleeps
		if !m.on(clearFirst) {
			p.pending = false
		}
		if !m.on(regFirst) && p.running < m.slots {
			p.register(m.on(reregister))
		}
		if p.pending {
			p.phase = clears
		}
	case sleeps:
		if m.flush && s.spent && !p.polled && !p.pending {
			t := s
			t.worker[w].phase, t.worker[w].poll = clears, true
			emit(usual, step{"poll, worker", w, -1}, t)
		}
		if !p.pending {
			return
		}
		verb, p.phase = "woken, worker", clears
	}
	emit(usual, step{verb, w, -1}, s)
}

// passOn is full.go: a worker whose slots a claim has filled leaves the set and wakes one more, in one script.
func (m wakes) passOn(s wakeState, w int, emit wakeEmit) {
	p := &s.worker[w]
	p.phase, p.registered = clears, false
	asker := w
	switch {
	case m.on(leaveFirst):
		p.isListed = false
	case p.isListed:
		asker = -1 // it may be the one that is woken
	}
	if !m.on(fullForward) {
		p.isListed = false
		emit(usual, step{"leave, worker", w, -1}, s)
		return
	}
	m.wake(s, asker, "passOn: wake.lua", func(k kind, l step, t wakeState) {
		t.worker[w].isListed = false
		emit(k, l, t)
	})
}

func (p *wakeWorker) register(again bool) {
	if !p.registered || p.poll && again {
		p.registered, p.isListed = true, true
	}
	p.polled = p.polled || p.poll
	p.poll = false
}

// claim takes what is due as far as there are slots. One that filled them may have left something.
func (m wakes) claim(s wakeState, w int, emit wakeEmit) {
	p := &s.worker[w]
	n, free := int8(0), m.slots-p.running
	if m.knows[w] {
		n = min(s.due, free)
	}
	s.due -= n
	p.running += n
	p.busy = n == free
	p.hungry = p.busy
	switch {
	case p.busy:
		p.phase = passesOn
	case p.skipped:
		p.phase = clears // it came short without standing in the set
	default:
		p.phase = fallsAsleep
	}
	emit(usual, step{"claim, worker and jobs", w, int(n)}, s)
}

func (m wakes) slotFreed(s wakeState, w int, emit wakeEmit) {
	p := &s.worker[w]
	if p.running == 0 {
		return
	}
	p.running--
	if p.hungry && m.on(slotFlag) {
		p.pending = true
	}
	emit(usual, step{"execute: slot freed, worker", w, -1}, s)
}

// trouble is a worker that dies while it does nothing, that closes, or that loses a slot to a hand-over.
func (m wakes) trouble(s wakeState, w int, emit wakeEmit) {
	p := &s.worker[w]
	if s.spent {
		return
	}
	s.spent = true
	switch {
	case m.crash && p.running == 0 && p.hints == 0 && !p.pending && p.phase == sleeps:
		p.up = false
		emit(fault, step{"crash, worker", w, -1}, s)
	case m.handOver && p.running < m.slots && (m.strict && p.phase != claims || p.phase == sleeps && !p.pending):
		p.running++
		emit(fault, step{"pass: a slot is taken, worker", w, -1}, s)
	case m.close && (p.phase == sleeps || p.phase == clears):
		unserved := p.pending
		p.closing, p.isListed, p.registered, p.pending = true, false, false, false
		if unserved && m.on(closeForward) {
			m.wake(s, w, "close: unserved, wake.lua", emit)
			return
		}
		emit(fault, step{"close, worker", w, -1}, s)
	}
}
