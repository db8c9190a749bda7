package worker

import (
	"sync"

	"github.com/weirq/weir/pkg/job"
)

// taskSet holds what this process holds, from the claim's answer until the result is durable: the other half of the
// database's account, which a renewal compares.
type taskSet struct {
	mu  sync.Mutex
	all map[job.ID]*task
}

func (s *taskSet) add(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[t.row.ID] = t
}

// remove forgets t. A newer claim of the same job may stand in its place: that one stays.
func (s *taskSet) remove(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[t.row.ID] == t {
		delete(s.all, t.row.ID)
	}
}

func (s *taskSet) get(id job.ID) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// stop cancels the handler of id, or notes it for when it starts.
func (s *taskSet) stop(id job.ID, cause error) {
	if t := s.get(id); t != nil {
		t.stop(cause)
	}
}

// stop cancels the handler with cause; one that has not started yet starts with its context ended.
func (t *task) stop(cause error) {
	t.mu.Lock()
	cancel := t.cancel
	if cancel == nil && t.stopped == nil {
		t.stopped = cause
	}
	t.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// of returns the tasks that ses holds.
func (s *taskSet) of(ses *session) []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*task, 0, len(s.all))
	for _, t := range s.all {
		if t.session == ses {
			out = append(out, t)
		}
	}
	return out
}

// countOf returns how many tasks ses holds. Handlers that outlive a lost session are not its successor's.
func (s *taskSet) countOf(ses *session) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if t.session == ses {
			n++
		}
	}
	return n
}

// count returns how many tasks there are, and how many of them killed two processes before.
func (s *taskSet) count() (all, suspects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if t.row.Crashes >= 2 {
			suspects++
		}
	}
	return len(s.all), suspects
}

func (s *taskSet) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
