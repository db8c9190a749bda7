package model

// finish is handover.sql: the job goes, and each of its rows to the first of that lock's line, or to nobody. With tx also
// finish_tx.sql, which hands nothing on.
func (m locks) finish(s lockState, w int, emit lockEmit) {
	p := &s.proc[w]
	if p.finishing != 0 {
		m.finished(&s, w)
		emit(usual, step{"finish_keyed: commit, worker", w, -1}, s)
		return
	}
	for j := range s.job {
		if p.task[j] == 0 {
			continue
		}
		t := s
		q := &t.proc[w]
		l := &t.job[j]
		isStale := l.fence != q.task[j]-1 || l.session != q.session
		if l.state != running || isStale && m.on(finishFence) {
			if !m.on(lockDelFenced) {
				t.unlock(j, -1)
			}
			q.task[j] = 0
			emit(usual, step{"finish_keyed: refused, job and worker", j, w}, t)
			continue
		}
		if isStale {
			t.bad = staleResult
		}
		q.finishing = int8(j + 1)
		q.handover = m.handOver(&t, j)
		if m.tx {
			u := t
			u.proc[w].handover = plan{locked: 1 << j}
			emit(usual, step{"finish_tx: its handler goes on, job and worker", j, w}, u)
		}
		emit(usual, step{"finish_keyed: decided, job and worker", j, w}, t)
		if q.handover.want != 0 && !t.isDead(q.session) {
			q.handover.run = true
			emit(usual, step{"finish_keyed: decided, with a slot for the next, job and worker", j, w}, t)
		}
	}
}

// handOver finds who gets the rows of a job. The slot of the plan is the row that is handed on.
func (m locks) handOver(s *lockState, j int) (p plan) {
	taken := s.locked()
	p.locked = 1 << j
	for k := range s.row {
		for i, r := range s.row[k] {
			if int(r.job) != j+1 || r.fence != s.job[j].fence {
				continue
			}
			if w := m.nextInLine(s, k, taken|p.locked); w >= 0 && m.rows(s, k) <= s.limit[k] {
				p.want |= 1 << w
				p.locked |= 1 << w
				p.slot[w][k] = int8(i + 1)
			}
		}
	}
	return p
}

// nextInLine returns the first of a key's line if it can be had and waits for no other, else -1.
func (m locks) nextInLine(s *lockState, k int, taken uint8) int {
	for w := range s.job {
		if s.job[w].state != blocked || !m.wants(w, k) {
			continue
		}
		isFree := taken&(1<<w) == 0
		if isFree && len(m.keys[w]) == 1 {
			return w
		}
		if m.on(oldestOnly) {
			return -1
		}
	}
	return -1
}

func (m locks) finished(s *lockState, w int) {
	p := &s.proc[w]
	j, h := int(p.finishing-1), p.handover
	fence := s.job[j].fence
	for n := range s.job {
		if h.want&(1<<n) == 0 {
			continue
		}
		for k := range s.row {
			if at := h.slot[n][k]; at != 0 {
				s.row[k][at-1] = lockRow{job: int8(n + 1), fence: s.job[n].fence, until: true}
			}
		}
	}
	s.job[j] = lockJob{state: ended, started: true}
	p.finishing, p.handover, p.task[j] = 0, plan{}, 0
	freed := s.unlock(j, fence)
	for n := range s.job {
		if h.want&(1<<n) != 0 {
			m.grant(s, n, w, h.run)
		}
	}
	if m.on(postPass) {
		p.pass.owed |= freed
	}
}

// grant is unblock.sql: a job that has its rows runs in a worker, or is available again with a reservation.
func (m locks) grant(s *lockState, j, w int, run bool) {
	if !run {
		s.job[j].state, s.job[j].isDue = available, true
		return
	}
	for k := range s.row {
		for i := range s.row[k] {
			if r := &s.row[k][i]; int(r.job) == j+1 && r.until {
				r.until = false
				r.fence++
			}
		}
	}
	m.begin(s, j, w, s.proc[w].session)
}

// pass is pass.sql, by a worker or by the sweeper (-1).
func (m locks) pass(s lockState, w int, emit lockEmit) {
	p := s.passer(w)
	switch p.phase {
	case idle:
		for k := range s.row {
			if p.owed&(1<<k) == 0 {
				continue
			}
			t := s
			q := t.passer(w)
			q.owed &^= 1 << k
			q.heads = m.heads(&t, k)
			q.heads &= -q.heads // the code takes twenty at once
			if !m.on(lockIfFree) {
				q.heads = m.first(&t, k)
			}
			if q.heads != 0 {
				q.phase = headsRead
			}
			emit(usual, step{"pass: heads are read, of key and by worker", k, w}, t)
		}
	case headsRead:
		m.passDecided(s, w, emit)
	case decided:
		m.passed(&s, w)
		emit(usual, step{"pass: commit, worker", w, -1}, s)
	}
}

func (s *lockState) passer(w int) *passer {
	if w < 0 {
		return &s.sweeper
	}
	return &s.proc[w].pass
}

func (m locks) first(s *lockState, k int) uint8 {
	for j := range s.job {
		if s.job[j].state == blocked && m.wants(j, k) {
			return 1 << j
		}
	}
	return 0
}

// passDecided has waited for the rows of the heads, and looks what they get now.
func (m locks) passDecided(s lockState, w int, emit lockEmit) {
	p := s.passer(w)
	taken, ids := s.locked(), p.heads
	if ids&taken != 0 {
		if m.on(passWaits) {
			return
		}
		ids &^= taken
	}
	for j := range s.job {
		if s.job[j].state != blocked {
			ids &^= 1 << j
		}
	}
	p.plan, p.phase = m.lockKeys(&s, ids, true, 0), decided
	p.plan.locked = ids
	emit(usual, step{"pass: decided, worker", w, -1}, s)
	if w >= 0 && p.plan.want != 0 && !s.isDead(s.proc[w].session) && m.free(&s.proc[w]) > 0 {
		p.plan.run = true
		emit(usual, step{"pass: decided, with a slot, worker", w, -1}, s)
	}
}

func (m locks) passed(s *lockState, w int) {
	p := s.passer(w)
	plan, heads := p.plan, p.heads
	*p = passer{owed: p.owed}
	keys := uint8(0)
	for j := range s.job {
		if heads&(1<<j) != 0 {
			for _, k := range m.keys[j] {
				keys |= 1 << k
			}
		}
		if plan.want&(1<<j) == 0 {
			continue
		}
		got := true
		if plan.run || m.on(pgReserve) {
			got, _ = m.put(s, &plan, j, false)
		}
		if got {
			m.grant(s, j, w, plan.run)
		}
	}
	if p = s.passer(w); m.on(passLoop) && heads != 0 {
		p.owed |= keys // also where it got its locks: more may follow. Of several keys the others have nothing to give
	}
}
