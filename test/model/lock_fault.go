package model

// reconcileHeld is reconcile.go: what the session holds and the worker does not know is given back, with its locks.
func (m locks) reconcileHeld(s lockState, w int, emit lockEmit) {
	p := &s.proc[w]
	if p.phase != idle || p.finishing != 0 || p.pass.phase == decided {
		return
	}
	if !p.reconcile {
		if p.reconcile = m.on(orphans) && !s.isDead(p.session) && m.hasOrphans(&s, w); p.reconcile {
			emit(usual, step{"renew: more jobs than tasks, worker", w, -1}, s)
		}
		return
	}
	p.reconcile = false
	for j := range s.job {
		if l := &s.job[j]; l.state == running && l.session == p.session && p.task[j] != l.fence+1 {
			m.giveBack(&s, j, true)
		}
	}
	emit(usual, step{"reconcile: release, worker", w, -1}, s)
}

func (m locks) hasOrphans(s *lockState, w int) bool {
	more := 0
	for j, l := range s.job {
		if l.state == running && l.session == s.proc[w].session {
			more++
		}
		if s.proc[w].task[j] != 0 {
			more--
		}
	}
	return more > 0
}

// giveBack makes a running job available with a higher fence. Its rows stay as its reservation, or while its handler runs on.
func (m locks) giveBack(s *lockState, j int, isDue bool) {
	l := &s.job[j]
	for k := range s.row {
		for i := range s.row[k] {
			if r := &s.row[k][i]; int(r.job) == j+1 && r.fence == l.fence {
				r.fence++
				r.until = true
			}
		}
	}
	l.state, l.session, l.isDue = available, 0, isDue
	l.fence++
}

// leave is release.sql for a handler that goes on for a while, and its end. The job is not due before that.
func (m locks) leave(s lockState, w int, emit lockEmit) {
	for j := range s.job {
		t := s
		p := &t.proc[w]
		l := &t.job[j]
		switch {
		case p.leaving&(1<<j) != 0:
			p.leaving &^= 1 << j
			l.isDue = true
			emit(usual, step{"exits_by has passed, job and worker", j, w}, t)
		case m.release && s.faults > 0 && p.task[j] == l.fence+1 && l.state == running && l.session == p.session && p.finishing != int8(j+1):
			t.faults--
			p.task[j] = 0
			p.leaving |= 1 << j
			m.giveBack(&t, j, false)
			if !m.on(lingerKept) {
				p.pass.owed |= t.unlock(j, -1)
			}
			emit(fault, step{"release, job and worker", j, w}, t)
		}
	}
}

// session is the death of a process or of its lease, and what follows.
func (m locks) session(s lockState, w int, emit lockEmit) {
	p := &s.proc[w]
	t := s
	q := &t.proc[w]
	switch {
	case !p.up && !s.isDead(p.session):
		t.dead |= 1 << p.session
		emit(usual, step{"mark_dead_by, worker", w, -1}, t)
	case s.isDead(p.session) && p.phase == idle && p.finishing == 0 && p.pass.phase == idle && p.session+2 <= lastSession:
		*q = lockProc{up: true, session: p.session + 2, leaving: p.leaving, stray: p.stray, strayOf: p.strayOf, pass: passer{owed: p.pass.owed}}
		emit(usual, step{"session lost, a new one, worker", w, -1}, t)
	}
	if !p.up || s.faults == 0 || s.isDead(p.session) || p.session+2 > lastSession {
		return
	}
	if m.crash {
		t = s
		t.faults--
		q := lockProc{session: p.session, leaving: p.leaving, stray: p.stray, strayOf: p.strayOf}
		if q.stray.locked == 0 { // what was sent may still be committed
			q.stray, q.strayOf = p.admit, p.session
		}
		t.proc[w] = q
		emit(fault, step{"crash, worker", w, -1}, t)
	}
	if m.freeze && p.task != [lockJobs]int8{} {
		t = s
		t.faults--
		t.dead |= 1 << p.session
		emit(fault, step{"frozen, and mark_dead_by, worker", w, -1}, t)
	}
}

// crashSweeper ends the sweeper, with what it had to look after; another is there.
func (m locks) crashSweeper(s lockState, emit lockEmit) {
	if m.crash && s.faults > 0 && s.sweeper != (passer{}) {
		s.faults--
		s.sweeper = passer{}
		emit(fault, step{"crash of the sweeper", -1, -1}, s)
	}
}

// sweep is recover.sql, tidy_reservations.sql and idle_keys.sql.
func (m locks) sweep(s lockState, emit lockEmit) {
	taken := s.locked()
	for j := range s.job {
		if l := &s.job[j]; l.state == running && s.isDead(l.session) && taken&(1<<j) == 0 {
			t := s
			m.giveBack(&t, j, true)
			emit(usual, step{"recover, job", j, -1}, t)
		}
		if m.expiry && s.canStart(j) && s.ownsAny(j) && taken&(1<<j) == 0 {
			m.tidy(s, j, emit)
		}
	}
	for k := range s.row {
		if s.sweeper.owed&(1<<k) == 0 && m.heads(&s, k) != 0 {
			t := s
			t.sweeper.owed |= 1 << k
			how := rescue
			if m.needsUnblock() {
				how = usual
			}
			emit(how, step{"unblock: idle key", k, -1}, t)
		}
	}
}

// tidy is tidy_reservations.sql: its time over, a job loses all its rows, and goes back to its place in line.
func (m locks) tidy(s lockState, j int, emit lockEmit) {
	if s.faults == 0 {
		return
	}
	s.faults--
	if m.on(resvAll) {
		s.sweeper.owed |= s.unlock(j, -1)
	} else {
		for k := range s.row {
			for i := range s.row[k] {
				if r := &s.row[k][i]; int(r.job) == j+1 {
					*r = lockRow{}
					s.sweeper.owed |= 1 << k
					k = lockKeys - 1
					break
				}
			}
		}
	}
	if m.on(backInLine) {
		s.job[j].state = blocked
	}
	emit(rescue, step{"tidy_reservations, job", j, -1}, s)
}

// byHand is what people do: cancel a job, lower a limit.
func (m locks) byHand(s lockState, emit lockEmit) {
	if s.faults == 0 {
		return
	}
	taken := s.locked()
	for j := range int(s.enqueued) {
		l := s.job[j]
		if !m.cancel || l.state != available && l.state != blocked || taken&(1<<j) != 0 {
			continue
		}
		t := s
		t.faults--
		t.job[j] = lockJob{state: ended, started: l.started}
		t.unlock(j, -1)
		if m.on(cancelPass) {
			for _, k := range m.keys[j] {
				t.sweeper.owed |= 1 << k
			}
		}
		emit(fault, step{"cancel, job", j, -1}, t)
	}
	for k := range s.limit {
		if m.lower && s.limit[k] == 2 && taken == 0 {
			t := s
			t.faults--
			t.limit[k] = 1
			emit(fault, step{"limit lowered, of key", k, -1}, t)
		}
	}
}
