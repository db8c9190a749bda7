package model

// renew is session.go and renew.sql. Of the many renewals those are left out that change nothing.
func (m leases) renew(s leaseState, w int, emit leaseEmit) {
	p := &s.proc[w]
	l := &s.lease[p.session]
	switch {
	case l.renewing:
		l.renewing, l.expired = false, false
		emit(usual, step{"renew: commit, worker", w, -1}, s)
		return
	case l.dead || l.expired && !m.on(renewExpired):
		if !l.dead && p.task != [leaseJobs]int8{} {
			s.bad = thrownAway
		}
		if s.open(w) {
			emit(usual, step{"renew: session lost, a new one, worker", w, -1}, s)
		}
		return
	case l.expired:
		t := s
		t.lease[p.session].renewing = true
		emit(usual, step{"renew: row is locked, worker", w, -1}, t)
	}
	if !m.on(orphans) || p.reconcile || p.phase != idle {
		return
	}
	more := 0
	for j := range s.job {
		if s.job[j].state == running && s.job[j].session == p.session {
			more++
		}
		if p.task[j] != 0 {
			more--
		}
	}
	if more > 0 {
		p.reconcile = true
		emit(usual, step{"renew: more jobs than tasks, worker", w, -1}, s)
	}
}

// open gives a worker its next session. All that it holds is dropped.
func (s *leaseState) open(w int) bool {
	p := &s.proc[w]
	next := p.session + 1
	if next == int8((w+1)*leaseSessions) {
		return false // as many as the faults allow
	}
	p.session, p.task, p.verb = next, [leaseJobs]int8{}, [leaseJobs]int8{}
	s.lease[next].open = true
	return true
}

// reconcileHeld is reconcile.go: the read of held.sql, and release.sql for what no task knows.
func (m leases) reconcileHeld(s leaseState, w int, emit leaseEmit) {
	p := &s.proc[w]
	switch {
	case p.phase == idle && p.reconcile:
		p.reconcile = false
		p.of = p.session
		for j, l := range s.job {
			if l.state == running && l.session == p.session && p.task[j] != l.fence+1 {
				p.seen[j] = l.fence + 1
				p.phase = heldRead
			}
		}
		emit(usual, step{"reconcile: held is read, worker", w, -1}, s)
	case p.phase == heldRead:
		for j := range s.job {
			l := &s.job[j]
			if p.seen[j] == 0 || l.state != running {
				continue
			}
			isSame := l.fence == p.seen[j]-1 && l.session == p.of
			if m.on(adoptFenced) && !isSame {
				continue
			}
			if !isSame {
				s.bad = falseReturn
			}
			m.giveBack(&s, j)
		}
		p.phase, p.seen = idle, [leaseJobs]int8{}
		emit(usual, step{"reconcile: release, worker", w, -1}, s)
	}
}

// crash ends a process; what it has sent may still be committed. Another is started in its place.
func (m leases) crash(s leaseState, w int, emit leaseEmit) {
	p := &s.proc[w]
	if !p.up {
		p.up = true
		if s.open(w) {
			emit(usual, step{"start: a new session, worker", w, -1}, s)
		}
		return
	}
	if s.faults == 0 || p.session+1 == int8((w+1)*leaseSessions) {
		return
	}
	s.faults--
	if p.phase == claimOpen && p.late == 0 {
		p.late, p.lateOf = p.mask, p.of
	}
	p.up, p.phase, p.mask, p.reconcile = false, idle, 0, false
	p.seen, p.task, p.verb = [leaseJobs]int8{}, [leaseJobs]int8{}, [leaseJobs]int8{}
	s.lease[p.session].renewing = false
	emit(fault, step{"crash, worker", w, -1}, s)
}

// sweep is what time and the sweeper do to a session: mark_dead_by.sql, recover.sql.
func (m leases) sweep(s leaseState, k int, emit leaseEmit) {
	l := s.lease[k]
	owner := &s.proc[k/leaseSessions]
	isKept := owner.up && int(owner.session) == k
	t := s
	switch {
	case l.expired || l.dead:
	case !isKept:
		t.lease[k].expired = true
		emit(usual, step{"the lease ends, session", k, -1}, t)
	case s.faults > 0:
		t.faults--
		t.lease[k].expired = true
		emit(fault, step{"the lease ends, session", k, -1}, t)
	}
	t = s
	switch {
	case l.dead:
	case m.on(rowLock):
		if l.expired && !l.renewing {
			t.lease[k].dead = true
			emit(usual, step{"mark_dead_by, session", k, -1}, t)
		}
	case s.marked == int8(k+1):
		if !l.renewing {
			t.marked = 0
			t.lease[k].dead = true
			if !l.expired {
				t.bad = falseDeath
			}
			emit(usual, step{"mark_dead_by: written, session", k, -1}, t)
		}
	case s.marked == 0 && l.expired:
		t.marked = int8(k + 1)
		emit(usual, step{"mark_dead_by: read, session", k, -1}, t)
	}
	m.recover(s, k, emit)
}

func (m leases) recover(s leaseState, k int, emit leaseEmit) {
	if !s.lease[k].dead || !m.on(rescan) && s.lease[k].swept {
		return
	}
	found, taken := false, s.locked()
	for j := range s.job {
		if l := &s.job[j]; l.state == running && int(l.session) == k && taken&(1<<j) == 0 {
			m.giveBack(&s, j)
			found = true
		}
	}
	if s.lease[k].swept = !m.on(rescan); found || s.lease[k].swept {
		emit(usual, step{"recover, session", k, -1}, s)
	}
}
