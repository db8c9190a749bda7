package model

import "math/bits"

// free is how many jobs a worker may take now.
func (m locks) free(p *lockProc) int {
	n := m.slots - bits.OnesCount8(p.cands|p.rest) - bits.OnesCount8(p.leaving)
	for _, task := range p.task {
		if task != 0 {
			n--
		}
	}
	if p.pass.plan.run {
		n -= bits.OnesCount8(p.pass.plan.want)
	}
	return n
}

func (s *lockState) isDead(session int8) bool { return s.dead&(1<<session) != 0 }

// claim is what claim.sql does about jobs with keys: it reads them, in their order (plainRead: without locks). Then
// acquire.lua answers for them.
func (m locks) claim(s lockState, w int, emit lockEmit) {
	p := &s.proc[w]
	if p.phase != idle || p.reconcile || s.isDead(p.session) {
		return
	}
	free, taken := m.free(p), s.locked()
	for j := range s.job {
		if free > 0 && s.canStart(j) && (m.on(plainRead) || taken&(1<<j) == 0) {
			p.cands |= 1 << j
			free--
		}
	}
	if p.cands == 0 {
		return
	}
	if alone := m.alone(&s, p.cands); m.aside && alone != 0 { // else, or where no slot was kept for them, all are left to admit
		t := s
		q := &t.proc[w]
		q.cands, q.rest, q.phase = alone, p.cands&^alone, aloneSeen
		emit(usual, step{"claim: some are alone with their lock, worker", w, -1}, t)
	}
	m.ask(s, w, emit)
}

// ask is what Redis says of candidates.
func (m locks) ask(s lockState, w int, emit lockEmit) {
	p := &s.proc[w]
	p.phase = candRead
	emit(usual, step{"claim: candidates are read, worker", w, -1}, s)
	for j := range s.job {
		if p.cands&(1<<j) != 0 && !s.ownsAny(j) {
			p.refused |= 1 << j
		}
	}
	if m.redis && p.refused != 0 {
		emit(fault, step{"claim: and Redis refuses them, worker", w, -1}, s)
	}
}

// alone is claim.sql's look at its candidates: which have one lock that nobody has, is blocked on or waits to start with.
func (m locks) alone(s *lockState, cands uint8) (alone uint8) {
	for j := range s.job {
		several := len(m.keys[j]) > 1
		if several && s.job[j].state == blocked || m.on(aloneInBatch) && several && cands&(1<<j) != 0 || s.limit != m.limit {
			return 0
		}
	}
	for j := range s.job {
		if cands&(1<<j) == 0 || len(m.keys[j]) > 1 {
			continue
		}
		k := m.keys[j][0]
		is := s.row[k] == [lockSlots]lockRow{}
		for i := range int(s.enqueued) {
			if i == j || m.keys[i][0] != k {
				continue
			}
			is = is && !(s.job[i].state == blocked && m.on(aloneUnblocked)) && !(s.job[i].state == available && m.on(aloneInLine))
		}
		if is {
			alone |= 1 << j
		}
	}
	return alone
}

// takeAlone locks them SKIP LOCKED and writes slot 0 of each lock.
func (m locks) takeAlone(s *lockState, cands uint8) plan {
	p, taken := plan{alone: true}, s.locked()
	for j := range s.job {
		if cands&(1<<j) != 0 && s.canStart(j) && taken&(1<<j) == 0 {
			p.locked |= 1 << j
			p.slot[j][m.keys[j][0]] = 1
		}
	}
	p.want = p.locked
	return p
}

// admit is admit.sql and admit.go.
func (m locks) admit(s lockState, w int, emit lockEmit) {
	p := &s.proc[w]
	switch p.phase {
	case aloneSeen:
		cands := p.cands
		p.cands, p.phase = 0, idle
		if !s.isDead(p.session) {
			p.admit = m.takeAlone(&s, cands)
		}
		if p.admit.locked != 0 {
			p.phase, p.cands = decided, p.admit.want
		} else if p.cands, p.rest = p.rest, 0; p.cands != 0 {
			p.phase = candRead
		}
		emit(usual, step{"claim: those alone are locked, worker", w, -1}, s)
	case candRead:
		cands, refused := p.cands, p.refused
		p.cands, p.refused, p.phase = 0, 0, idle
		if !s.isDead(p.session) {
			p.admit = m.decide(&s, cands, refused)
		}
		if p.admit.locked != 0 {
			p.phase, p.cands = decided, p.admit.want
		}
		emit(usual, step{"admit: decided, worker", w, -1}, s)
	case decided:
		t := s
		m.commitAdmit(&t, w)
		if q := &t.proc[w]; q.rest != 0 {
			q.cands, q.rest = q.rest, 0
			m.ask(t, w, emit)
			q.cands, q.phase = 0, idle
		} else {
			emit(usual, step{"admit: commit, worker", w, -1}, t)
		}
		if m.lost && s.faults > 0 {
			t.faults--
			q := &t.proc[w]
			q.reconcile, q.task, q.pass.owed = true, p.task, p.pass.owed
			emit(fault, step{"admit: commit, and the answer is lost, worker", w, -1}, t)
		}
		if q := &s.proc[w]; m.lost && s.faults > 0 && q.stray.locked == 0 {
			s.faults--
			q.stray, q.strayOf, q.reconcile = q.admit, q.session, true
			q.admit, q.cands, q.rest, q.phase = plan{}, 0, 0, idle
			emit(fault, step{"admit: given up before the commit, worker", w, -1}, s)
		}
	}
}

// strays ends an admission that its client gave up.
func (m locks) strays(s lockState, w int, emit lockEmit) {
	p := s.proc[w]
	if p.stray.locked == 0 {
		return
	}
	s.proc[w].stray, s.proc[w].strayOf = plan{}, 0
	emit(usual, step{"admit: the one given up rolls back, worker", w, -1}, s)
	m.admitted(&s, w, p.stray, p.strayOf)
	s.proc[w].task = p.task
	emit(fault, step{"admit: the one given up commits, worker", w, -1}, s)
}

// decide locks the candidates SKIP LOCKED, leaves those that are not to overtake others, and asks for locks for the rest.
func (m locks) decide(s *lockState, cands, refused uint8) plan {
	taken := s.locked()
	ids, lost, left := uint8(0), uint8(0), uint8(0)
	for j := range s.job {
		switch {
		case cands&(1<<j) == 0 || !s.canStart(j):
		case taken&(1<<j) != 0:
			lost |= 1 << j
		default:
			ids |= 1 << j
		}
	}
	if ids == 0 {
		return plan{}
	}
	owners := uint8(0)
	for j := range s.job {
		if ids&(1<<j) != 0 && s.ownsAny(j) {
			owners |= 1 << j
		}
	}
	all := ids
	if m.on(lineCheck) {
		m.checkLine(s, &all, &lost, &left, owners)
	}
	for more := m.on(lostKeeps); more; {
		more = false
		for j := range s.job {
			if all&^left&^owners&(1<<j) != 0 && m.isBehind(j, lost|left) {
				left |= 1 << j
				more = true
			}
		}
	}
	p := m.lockKeys(s, all&^left, false, refused)
	p.locked = all
	m.blockLine(s, &p, taken)
	return p
}

// isBehind reports whether one of some older jobs wants a key of the job.
func (m locks) isBehind(j int, of uint8) bool {
	for i := range j {
		if of&(1<<i) == 0 {
			continue
		}
		for _, k := range m.keys[j] {
			if m.wants(i, k) {
				return true
			}
		}
	}
	return false
}

// checkLine is lineCheck: the oldest that is due in the line of a first key and is not in hand comes before those that are.
func (m locks) checkLine(s *lockState, all, lost, left *uint8, owners uint8) {
	in := *all
	for o := range s.job {
		if !s.canStart(o) || in&(1<<o) != 0 || *all&(1<<o) != 0 {
			continue
		}
		first := m.keys[o][0]
		more := uint8(0)
		for j := o + 1; j < lockJobs; j++ {
			if *all&^owners&(1<<j) != 0 && m.wants(j, first) {
				more |= 1 << j
			}
		}
		switch {
		case more == 0:
			continue
		case s.locked()&(1<<o) == 0 && more&^*left != 0:
			*all |= 1 << o
		default:
			*lost |= 1 << o
		}
		*left |= more
	}
}

// blockLine is block_line.sql: those who wait for a busy lock alone are blocked along, up to the first that another has.
func (m locks) blockLine(s *lockState, p *plan, taken uint8) {
	for _, busy := range p.busy {
		if busy == 0 {
			continue
		}
		k := int(busy - 1)
		for j := range s.job {
			if p.locked&(1<<j) != 0 || !s.canStart(j) || len(m.keys[j]) > 1 || m.keys[j][0] != k || s.ownsAny(j) {
				continue
			}
			if taken&(1<<j) != 0 {
				break
			}
			p.block |= 1 << j
			p.locked |= 1 << j
			p.busy[j] = busy
		}
	}
}

func (m locks) commitAdmit(s *lockState, w int) {
	p := &s.proc[w]
	freed := m.admitted(s, w, p.admit, p.session)
	p.admit, p.cands, p.phase = plan{}, 0, idle
	if m.on(recheck) {
		p.pass.owed |= freed
	}
}

// admitted writes a plan: each job runs or is blocked. It returns the locks to look after.
func (m locks) admitted(s *lockState, w int, a plan, session int8) (freed uint8) {
	for j := range s.job {
		if a.want&(1<<j) == 0 {
			continue
		}
		if a.alone && s.row[m.keys[j][0]][0].job != 0 {
			continue // ON CONFLICT DO NOTHING: it is left as it is, with a reservation that it may have got
		}
		got, gaveUp := m.put(s, &a, j, true)
		freed |= gaveUp
		if got {
			m.begin(s, j, w, session)
		} else {
			a.block |= 1 << j
		}
	}
	for j := range s.job {
		if a.block&(1<<j) != 0 {
			s.job[j].state = blocked
			freed |= 1<<(a.busy[j]-1) | s.unlock(j, -1)
		}
	}
	return freed
}

// begin makes a job run in a session of a worker, and looks whether it may.
func (m locks) begin(s *lockState, j, w int, session int8) {
	l := &s.job[j]
	l.state, l.session = running, session
	if m.on(claimFence) {
		l.fence++
	}
	s.proc[w].task[j] = l.fence + 1
	for _, k := range m.keys[j] {
		n := int8(0)
		for i := range s.job {
			isHeld := s.job[i].state == running && !s.isDead(s.job[i].session)
			for v := range s.proc {
				isHeld = isHeld || s.proc[v].leaving&(1<<i) != 0
			}
			if isHeld && m.wants(i, k) {
				n++
			}
			isOlder := i < j && !l.started && !s.job[i].started && (s.canStart(i) || s.job[i].state == blocked)
			if isOlder && m.limit[k] == 1 && m.wants(i, k) {
				s.bad = overtaken
			}
		}
		if n > s.limit[k] {
			s.bad = overLimit
		}
	}
	l.started = true
}
