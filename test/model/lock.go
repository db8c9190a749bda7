package model

// locks is the life of jobs with keys: claim, admit, finish with its hand-over, pass, and what crashes, lost leases, tidying,
// cancels and releases do to them, by two workers of three threads each (dispatcher, results, passes) and a sweeper.
// A transaction is two steps: in the first it locks its live rows and decides by the snapshot, in the second it commits; what
// another has committed in between it meets as a conflict on a slot. Redis is an answer that may be anything, in every
// state: what it holds, forgets or is told makes no difference to what must hold.
type locks struct {
	guarded
	keys  [lockJobs][]int // in the order of the job's own list
	limit [lockKeys]int8
	slots int // of a worker
	// What may go wrong, and how often altogether.
	faults                               int8
	crash, freeze, lost, release, cancel bool
	redis, lower, expiry, tx             bool
	aside                                bool // a claim keeps slots for those that are alone with their lock, or does not
	jobs                                 int
	strict                               bool // the sweeper's look at idle keys is never counted on
}

const (
	lockJobs    = 3
	lockKeys    = 2
	lockSlots   = 2
	lastSession = 7 // as many as the faults can use up
)

type lockState struct {
	job      [lockJobs]lockJob
	row      [lockKeys][lockSlots]lockRow
	limit    [lockKeys]int8
	proc     [2]lockProc
	sweeper  passer
	dead     uint8 // sessions, by number
	enqueued int8
	faults   int8
	bad      int8
}

// lockJob is a live row. Its place in line is its number.
type lockJob struct {
	state, session, fence int8
	isDue                 bool // ready_at has passed
	started               bool // before, at least once
}

// lockRow is a row of locks. With until it is a reservation or lingers.
type lockRow struct {
	job, fence int8 // job from 1; 0: there is no row
	until      bool
}

type lockProc struct {
	up        bool
	session   int8
	phase     int8 // of the dispatcher: idle, aloneSeen, candRead or decided
	cands     uint8
	rest      uint8 // candidates, while those of them that are alone are taken
	refused   uint8 // by Redis
	admit     plan
	stray     plan // of an admission that was given up and may still commit
	strayOf   int8
	reconcile bool
	task      [lockJobs]int8 // fences from 1
	leaving   uint8          // handlers that run on though their jobs were released
	finishing int8           // the job, from 1
	handover  plan
	pass      passer
}

const (
	candRead int8 = iota + 1
	decided
	aloneSeen
)

// plan is an open transaction: what it has locked and what it will write.
type plan struct {
	locked uint8
	want   uint8 // jobs that may have all their locks
	block  uint8
	slot   [lockJobs][lockKeys]int8 // from 1: to be inserted for that job
	busy   [lockJobs]int8           // the first key that it did not get, from 1
	run    bool                     // pass and hand-over: here, or a reservation
	alone  bool                     // claim: who does not get its lock is left
}

// passer is pass.go of a worker, or of the sweeper: keys to look after, and the pass under way.
type passer struct {
	owed  uint8
	phase int8 // idle, headsRead or decided
	heads uint8
	plan  plan
}

const headsRead = candRead

var lockWrongs = []string{
	"",
	"P3: a stale result was written",
	"P4: more holders of a key than its limit",
	"P7: a newer job of a key has overtaken an older one",
	"P6: a lock is free, its first waits, and nobody looks",
	"lock rows are left over",
}

const (
	overLimit int8 = iota + 2
	overtaken
	nobodyLooks
	rowsLeft
)

type lockEmit = func(kind, step, lockState)

func (m locks) start() lockState {
	s := lockState{limit: m.limit, faults: m.faults}
	for w := range s.proc {
		s.proc[w].up, s.proc[w].session = true, int8(w+1)
	}
	for j := m.jobs; j < lockJobs; j++ {
		s.job[j].state = ended
	}
	return s
}

func (m locks) done(s lockState) bool {
	for _, j := range s.job {
		if j.state != ended {
			return false
		}
	}
	return true
}

func (m locks) wrong(s lockState) string {
	if s.bad == 0 && !m.needsUnblock() && s.isQuiet() {
		for k := range s.row {
			if m.heads(&s, k) != 0 {
				s.bad = nobodyLooks
			}
		}
		if m.done(s) && s.row != [lockKeys][lockSlots]lockRow{} {
			s.bad = rowsLeft
		}
	}
	return lockWrongs[s.bad]
}

// needsUnblock reports whether the sweeper's look at idle keys is counted on: a process that crashed, or that did not get an
// answer, takes with it what it had to look after.
func (m locks) needsUnblock() bool { return !m.strict && (m.crash || m.lost) }

// isQuiet reports whether no statement is under way and no key waits to be looked after.
func (s *lockState) isQuiet() bool {
	for w := range s.proc {
		if p := &s.proc[w]; p.phase != idle || p.finishing != 0 || p.pass.phase != idle || p.pass.owed != 0 || p.leaving != 0 || p.stray.locked != 0 {
			return false
		}
	}
	return s.sweeper.phase == idle && s.sweeper.owed == 0
}

func (m locks) next(s lockState, emit lockEmit) {
	if int(s.enqueued) < m.jobs {
		t := s
		t.job[s.enqueued].isDue = true
		t.enqueued++
		emit(usual, step{"enqueue, job", int(s.enqueued), -1}, t)
	}
	for w := range s.proc {
		if s.proc[w].up {
			m.claim(s, w, emit)
			m.admit(s, w, emit)
			m.finish(s, w, emit)
			m.reconcileHeld(s, w, emit)
			m.pass(s, w, emit)
		}
		m.strays(s, w, emit)
		m.leave(s, w, emit)
		m.session(s, w, emit)
	}
	m.pass(s, -1, emit)
	m.sweep(s, emit)
	m.crashSweeper(s, emit)
	m.byHand(s, emit)
}

// locked returns the live rows that open transactions have locked.
func (s *lockState) locked() uint8 {
	mask := s.sweeper.plan.locked
	for w := range s.proc {
		p := &s.proc[w]
		mask |= p.admit.locked | p.stray.locked | p.handover.locked | p.pass.plan.locked
	}
	return mask
}

func (m locks) wants(j, k int) bool {
	for _, key := range m.keys[j] {
		if key == k {
			return true
		}
	}
	return false
}

// rows counts those of a key (limitCount: also reservations and those that linger).
func (m locks) rows(s *lockState, k int) (n int8) {
	for _, r := range s.row[k] {
		if r.job != 0 && (m.on(limitCount) || !r.until) {
			n++
		}
	}
	return n
}

// owns reports whether the job has a row of the key for its present fence.
func (s *lockState) owns(j, k int) bool {
	for _, r := range s.row[k] {
		if int(r.job) == j+1 && r.fence == s.job[j].fence {
			return true
		}
	}
	return false
}

func (s *lockState) ownsAny(j int) bool {
	for k := range s.row {
		for _, r := range s.row[k] {
			if int(r.job) == j+1 {
				return true
			}
		}
	}
	return false
}

func (s *lockState) canStart(j int) bool {
	return s.job[j].state == available && s.job[j].isDue
}

// ahead is ahead.sql: how many are blocked on a key before a job.
func (m locks) ahead(s *lockState, k, j int) (n int8) {
	for i := range j {
		if s.job[i].state == blocked && m.wants(i, k) {
			n++
		}
	}
	return n
}

// heads is heads.sql.
func (m locks) heads(s *lockState, k int) (mask uint8) {
	older := int8(0)
	for j := range s.job {
		if s.job[j].state != blocked || !m.wants(j, k) {
			continue
		}
		may := m.rows(s, k)+older < s.limit[k]
		for _, other := range m.keys[j] {
			may = may && (other == k || m.rows(s, other)+m.ahead(s, other, j) < s.limit[other])
		}
		if may {
			mask |= 1 << j
		}
		older++
	}
	return mask
}
