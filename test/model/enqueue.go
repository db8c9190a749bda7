package model

// enqueues is enqueue.sql and enqueue_unique.sql: clients that give up and try again with the same id while an earlier try
// may still be committed, or begin, at any later time; jobs that run and end meanwhile; and the sweeper's uniques.sql and
// uniques_delete.sql. With unique, both jobs have one unique key, which they lose when they end, or, with window, later.
type enqueues struct {
	guarded
	unique, window bool
}

type enqueueState struct {
	try   [2][2]enqueueTry // two of each job
	log   [2]bool
	live  [2]int8
	runs  [2]int8
	owner int8 // of the key, from 1
	held  bool // its window is not over
	seen  int8 // by the sweeper: the owner, from 1, whose job is over
	bad   int8
}

// enqueueTry is a call of the function. What it writes is not seen before its commit.
type enqueueTry struct {
	phase          int8
	key, log, live bool
}

const (
	unsent int8 = iota
	sent
	open
	over
)

var enqueueWrongs = []string{
	"",
	"P1: a job ran twice",
	"two live jobs have one unique key",
	"a live job has lost its unique key",
	"a unique key is left of a job that is over",
}

type enqueueEmit = func(kind, step, enqueueState)

func (m enqueues) start() (s enqueueState) { return s }

func (m enqueues) done(s enqueueState) bool {
	return s.isQuiet() && s.owner == 0
}

func (s *enqueueState) isQuiet() bool {
	for j := range s.try {
		isSent := false
		for _, t := range s.try[j] {
			if t.phase == sent || t.phase == open {
				return false
			}
			isSent = isSent || t.phase == over
		}
		if !isSent || s.live[j] > 0 {
			return false
		}
	}
	return true
}

func (m enqueues) wrong(s enqueueState) string {
	for j := range s.live {
		switch {
		case s.runs[j] > 1:
			s.bad = 1
		case m.unique && s.live[j] > 0 && s.live[1-j] > 0:
			s.bad = 2
		case m.unique && s.live[j] > 0 && int(s.owner) != j+1:
			s.bad = 3
		case s.isQuiet() && s.owner != 0 && !m.window:
			s.bad = 4
		}
	}
	return enqueueWrongs[s.bad]
}

func (m enqueues) next(s enqueueState, emit enqueueEmit) {
	for j := range s.try {
		for a := range s.try[j] {
			m.enqueue(s, j, a, emit)
		}
		if s.live[j] > 0 {
			t := s
			t.live[j]--
			t.runs[j]++
			if int(t.owner) == j+1 && m.on(keyDies) && !t.held {
				t.owner = 0
			}
			emit(usual, step{"claim, execute and finish, job", j, -1}, t)
		}
	}
	m.sweep(s, emit)
}

func (m enqueues) enqueue(s enqueueState, j, a int, emit enqueueEmit) {
	t := s
	q := &t.try[j][a]
	switch q.phase {
	case unsent:
		q.phase = sent
		switch {
		case a == 0:
			emit(usual, step{"enqueue: sent, job and try", j, a}, t)
		case s.try[j][0].phase == sent || s.try[j][0].phase == open:
			emit(fault, step{"enqueue: given up and sent again, job and try", j, a}, t)
		}
	case sent:
		m.insert(t, j, a, emit)
	case open:
		u := t
		u.try[j][a] = enqueueTry{phase: over}
		if a == 0 && s.try[j][1].phase != unsent { // given up: it may end in either way
			emit(usual, step{"enqueue: rolled back, job and try", j, a}, u)
		}
		if q.key {
			u.owner, u.held = int8(j+1), m.window
		}
		u.log[j] = u.log[j] || q.log
		if q.live {
			u.live[j]++
		}
		emit(usual, step{"enqueue: commit, job and try", j, a}, u)
	}
}

// insert waits for who is writing the key or the log row, then goes by what is committed.
func (m enqueues) insert(s enqueueState, j, a int, emit enqueueEmit) {
	for i := range s.try {
		for _, other := range s.try[i] {
			if other.phase == open && (other.key || i == j && other.log) {
				return
			}
		}
	}
	q := &s.try[j][a]
	isTaken := m.unique && s.owner != 0 && (int(s.owner) == j+1 || s.live[s.owner-1] > 0 || s.held)
	isKnown := a > 0 && s.log[j] // log_row is looked up for a second try alone
	if isTaken || isKnown && m.unique {
		q.phase = over
		emit(usual, step{"enqueue: the key or the id is there, job and try", j, a}, s)
		return
	}
	q.phase, q.key, q.log = open, m.unique, !s.log[j]
	q.live = q.log || !m.on(liveFromLog)
	if !q.log && m.on(uniqueAsksLog) {
		q.key = false
	}
	emit(usual, step{"enqueue: rows are written, job and try", j, a}, s)
}

// sweep is the duty uniques: found in one statement, deleted in the next by what was seen.
func (m enqueues) sweep(s enqueueState, emit enqueueEmit) {
	if s.held && s.live[s.owner-1] == 0 {
		t := s
		t.held = false
		emit(usual, step{"the window is over", -1, -1}, t)
	}
	how := rescue
	if m.window {
		how = usual
	}
	switch {
	case !m.on(sweepTidies):
	case s.seen != 0:
		if s.owner == s.seen || !m.on(sweepByJob) {
			s.owner, s.held = 0, false
		}
		s.seen = 0
		emit(how, step{"uniques_delete", -1, -1}, s)
	case s.owner != 0 && s.live[s.owner-1] == 0 && !s.held:
		s.seen = s.owner
		emit(how, step{"uniques", -1, -1}, s)
	}
}
