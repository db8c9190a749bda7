package model

// leases is the life of jobs without keys: claim, finish, retry, renew, mark, recover and reconcile, of two workers and a
// sweeper. A statement that others can come between is two steps, its locks and its commit. Handlers end as they like.
type leases struct {
	guarded
	faults int8 // crashes, lost replies and lost leases
}

// States of a live row. Ended means that there is none any more.
const (
	available int8 = iota
	running
	blocked
	ended
)

const (
	leaseJobs     = 2
	leaseSessions = 3 // of a worker: a new one after each loss
	leaseClaims   = 8 // a job that was claimed and given back so often counts as ended
)

type leaseState struct {
	job    [leaseJobs]leaseJob
	lease  [2 * leaseSessions]lease
	proc   [2]leaseProc
	marked int8 // the session that the sweeper is about to mark, from 1; without rowLock
	faults int8
	retry  bool // a handler has failed: once is enough
	bad    int8
}

type leaseJob struct{ state, session, fence, ends int8 }

// lease is a row of sessions.
type lease struct{ open, expired, dead, renewing, swept bool }

type leaseProc struct {
	up        bool
	session   int8
	phase     int8 // of the dispatcher: one of the constants below
	of        int8 // the session that it claims or gives back for
	mask      uint8
	seen      [leaseJobs]int8 // fences from 1: what was answered, or read by reconcileHeld
	late      uint8           // jobs of a claim that its client gave up and that may still commit
	lateOf    int8
	reconcile bool
	task      [leaseJobs]int8 // fences from 1; 0 is no task
	verb      [leaseJobs]int8 // how the handler ended: one of the constants below
	stray     [leaseJobs]int8 // fence from 1 of a result's statement that was given up and may still commit
	strayVerb [leaseJobs]int8
	strayOf   int8
}

const (
	idle int8 = iota
	claimOpen
	claimCommitted
	heldRead
)

const (
	working int8 = iota
	completes
	fails
)

var leaseWrongs = []string{
	"",
	"P3: a stale result was written",
	"P8: a session with a good lease was marked dead",
	"P3: a claim was given back that another had made meanwhile",
	"P2: a handler runs without a committed claim",
	"P8: work was thrown away that nobody had taken",
	"P3: one fence names two claims",
}

const (
	staleResult int8 = iota + 1
	falseDeath
	falseReturn
	noClaim
	thrownAway
	sameFence
)

type leaseEmit = func(kind, step, leaseState)

func (m leases) start() leaseState {
	s := leaseState{faults: m.faults}
	for w := range s.proc {
		s.proc[w].up, s.proc[w].session = true, int8(w*leaseSessions)
		s.lease[s.proc[w].session].open = true
	}
	return s
}

func (m leases) done(s leaseState) bool {
	for _, j := range s.job {
		if j.state != ended && j.fence < leaseClaims {
			return false
		}
	}
	return true
}

func (m leases) wrong(s leaseState) string { return leaseWrongs[s.bad] }

func (m leases) next(s leaseState, emit leaseEmit) {
	for w := range s.proc {
		if s.proc[w].up {
			m.claim(s, w, emit)
			m.handle(s, w, emit)
			m.renew(s, w, emit)
			m.reconcileHeld(s, w, emit)
		}
		m.crash(s, w, emit)
		m.strays(s, w, emit)
	}
	for k := range s.lease {
		if s.lease[k].open {
			m.sweep(s, k, emit)
		}
	}
}

func (s *leaseState) locked() (mask uint8) {
	for w := range s.proc {
		if s.proc[w].phase == claimOpen {
			mask |= s.proc[w].mask
		}
		mask |= s.proc[w].late
	}
	return mask
}

// claim is claim.sql and what dispatch.go makes of its answer.
func (m leases) claim(s leaseState, w int, emit leaseEmit) {
	p := &s.proc[w]
	switch p.phase {
	case idle:
		if p.reconcile || m.on(sessionGuard) && s.lease[p.session].dead {
			return
		}
		taken := s.locked()
		for j := range s.job {
			if s.job[j].state == available && taken&(1<<j) == 0 && s.job[j].fence < leaseClaims {
				p.mask |= 1 << j
				if !m.on(wholeAnswer) {
					p.task[j], p.verb[j] = s.job[j].fence+2, working
				}
			}
		}
		if p.mask != 0 {
			p.phase, p.of = claimOpen, p.session
			emit(usual, step{"claim: rows are locked, worker", w, -1}, s)
		}
	case claimOpen:
		t := s
		if q := &t.proc[w]; t.faults > 0 && q.late == 0 {
			t.faults--
			q.late, q.lateOf, q.mask, q.phase, q.reconcile = q.mask, q.of, 0, idle, true
			emit(fault, step{"claim: given up before the commit, worker", w, -1}, t)
		}
		p.phase = claimCommitted
		p.seen = m.commitClaim(&s, p.mask, p.of)
		emit(usual, step{"claim: commit, worker", w, -1}, s)
	case claimCommitted:
		mask, seen := p.mask, p.seen
		p.phase, p.mask, p.seen = idle, 0, [leaseJobs]int8{}
		if s.faults > 0 {
			t := s
			t.faults--
			t.proc[w].reconcile = true
			emit(fault, step{"claim: the answer is lost, worker", w, -1}, t)
		}
		for j := range seen {
			if mask&(1<<j) != 0 && p.of == p.session { // else deliver drops them: the session was lost
				p.task[j], p.verb[j] = seen[j], working
			}
		}
		emit(usual, step{"claim: answer read, worker", w, -1}, s)
	}
}

func (m leases) commitClaim(s *leaseState, mask uint8, session int8) (fences [leaseJobs]int8) {
	for j := range s.job {
		if mask&(1<<j) == 0 {
			continue
		}
		l := &s.job[j]
		if m.on(claimFence) {
			l.fence++
		}
		l.state, l.session = running, session
		fences[j] = l.fence + 1
		for w := range s.proc {
			if p := &s.proc[w]; m.on(wholeAnswer) && (p.task[j] == fences[j] || p.stray[j] == fences[j]) {
				s.bad = sameFence
			}
		}
	}
	return fences
}

// handle is execute.go and result.go: a handler ends and its result is written, in one step, since finish.sql has no more
// than one statement.
func (m leases) handle(s leaseState, w int, emit leaseEmit) {
	for j := range s.job {
		t := s
		p := &t.proc[w]
		switch {
		case p.task[j] == 0:
		case !m.on(wholeAnswer) && t.job[j].fence+1 < p.task[j] && p.phase != claimOpen && p.late == 0:
			t.bad = noClaim
			emit(usual, step{"execute", j, w}, t)
		case p.verb[j] == working:
			p.verb[j] = completes
			emit(usual, step{"execute: handler returns, job and worker", j, w}, t)
			if !t.retry {
				t.retry, p.verb[j] = true, fails
				emit(usual, step{"execute: handler fails, job and worker", j, w}, t)
			}
		default:
			if t.faults > 0 && p.stray[j] == 0 {
				u := t
				u.faults--
				q := &u.proc[w]
				q.stray[j], q.strayVerb[j], q.strayOf = q.task[j], q.verb[j], q.session
				emit(fault, step{"finish: given up before the commit, job and worker", j, w}, u)
			}
			m.finish(&t, j, p.task[j]-1, p.session, p.verb[j])
			p.task[j], p.verb[j] = 0, working
			emit(usual, step{"finish, job and worker", j, w}, t)
		}
	}
}

// finish is finish.sql and retry.sql.
func (m leases) finish(s *leaseState, j int, fence, session, verb int8) {
	l := &s.job[j]
	isStale := l.fence != fence || l.session != session
	if l.state != running || m.on(finishFence) && isStale {
		return
	}
	if isStale {
		s.bad = staleResult
	}
	if verb == completes {
		l.state = ended
		l.ends++
		return
	}
	m.giveBack(s, j)
}

func (m leases) giveBack(s *leaseState, j int) {
	l := &s.job[j]
	l.state, l.session = available, 0
	if m.on(recoverFence) {
		l.fence++
	}
}

// strays commits what its client gave up: a claim, a result.
func (m leases) strays(s leaseState, w int, emit leaseEmit) {
	if p := &s.proc[w]; p.late != 0 {
		t := s
		t.proc[w].late = 0
		emit(usual, step{"claim: the one given up rolls back, worker", w, -1}, t)
		m.commitClaim(&t, p.late, p.lateOf)
		emit(fault, step{"claim: the one given up commits, worker", w, -1}, t)
	}
	for j := range s.job {
		if s.proc[w].stray[j] != 0 {
			t := s
			p := &t.proc[w]
			m.finish(&t, j, p.stray[j]-1, p.strayOf, p.strayVerb[j])
			p.stray[j], p.strayVerb[j] = 0, working
			emit(fault, step{"finish: the one given up commits, job and worker", j, w}, t)
		}
	}
}
