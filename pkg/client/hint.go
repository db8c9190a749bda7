package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// maxQueues is how many queues can have hints waiting for Redis. What is beyond is left to the sweeper's wake.
const maxQueues = 1024

// hintEvery is how long hints gather after some that found no idle worker at all: for the same queues the next ones would
// most likely find none either. They are late by so much and never left out: a worker that has registered since may have
// claimed before their commit.
const hintEvery = 2 * time.Millisecond

// Wake tells idle workers that queues have jobs: after the commit of a transaction in which EnqueueTx or EnqueueSQLTx
// was called, or an INSERT that Weir did not see. It is never needed, only sooner. An error of Redis is returned.
func (c *Client) Wake(ctx context.Context, queues ...string) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	hints := make([]coord.Hint, 0, len(queues))
	for _, queue := range queues {
		if err := job.ValidateQueue(queue); err != nil {
			return err
		}
		h := coord.Hint{Queue: queue, Count: 1}
		if !c.local.offer(h) {
			hints = append(hints, h)
		}
	}
	if len(hints) == 0 {
		return nil
	}
	if err := c.bus.Wake(ctx, hints...); err != nil {
		return fmt.Errorf("wake %d queues: %w", len(hints), err)
	}
	return nil
}

// locals are the workers of this process.
type locals struct {
	mu      sync.RWMutex // held for reading while they are called, so that one that was removed is not called any more
	workers []*func(coord.Hint) bool
}

func (l *locals) add(f func(coord.Hint) bool) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = append(l.workers, &f)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.workers = slices.DeleteFunc(l.workers, func(w *func(coord.Hint) bool) bool { return w == &f })
	}
}

func (l *locals) offer(h coord.Hint) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, w := range l.workers {
		if (*w)(h) {
			return true
		}
	}
	return false
}

// announcements are hints of jobs that are due, by queue and kind.
type announcements map[subject]coord.Hint

type subject struct{ queue, kind string }

// collect adds the jobs of a statement that are due now. Those that come due later are the sweeper's to wake.
func (a announcements) collect(jobs []pgstore.NewJob, out *pgstore.Enqueued, early bool) {
	if out.LeastReady.IsZero() || out.LeastReady.After(out.Now) {
		return
	}
	for i := range jobs {
		j := &jobs[i]
		if j.Delay > 0 || j.ScheduledAt.After(out.Now) || isDuplicate(out, j.ID) {
			continue
		}
		key := subject{j.Queue, j.Kind}
		h, ok := a[key]
		if !ok {
			h = coord.Hint{Queue: j.Queue, Kind: j.Kind, ReadyAt: out.LeastReady, Early: early}
		}
		h.Count++
		h.ReadyAt = earliest(h.ReadyAt, out.LeastReady)
		a[key] = h
	}
}

// hinter sends hints to Redis off the callers' path. What comes while one call is under way adds up for the next.
type hinter struct {
	client *Client

	mu        sync.Mutex
	pending   map[string]coord.Hint // by queue
	isRunning bool
	deaf      map[string]coord.Hint // while it rests: what found no idle worker
	urgent    chan struct{}         // while it rests: closed when a hint comes for another queue
}

// announce wakes workers for jobs that were inserted: one of this process, others by Redis.
func (s *hinter) announce(jobs []pgstore.NewJob, out *pgstore.Enqueued, early bool) {
	a := announcements{}
	a.collect(jobs, out, early)
	s.wake(a)
}

func (s *hinter) wake(a announcements) {
	for key, h := range a {
		if s.client.local.offer(h) {
			h.Count--
		}
		if a[key] = h; h.Count == 0 {
			delete(a, key)
		}
	}
	if len(a) == 0 || !s.client.bus.Enabled() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range a {
		s.mergeLocked(h)
		if _, ok := s.deaf[h.Queue]; !ok && s.urgent != nil {
			close(s.urgent)
			s.urgent = nil
		}
	}
	if !s.isRunning && len(s.pending) > 0 {
		s.isRunning = true
		s.client.background(s.run)
	}
}

func (s *hinter) mergeLocked(h coord.Hint) {
	old, ok := s.pending[h.Queue]
	switch {
	case !ok && len(s.pending) == maxQueues:
		return
	case !ok && s.pending == nil:
		s.pending = map[string]coord.Hint{}
	case ok:
		if old.Kind != h.Kind {
			h.Kind = "" // any
		}
		h.Count += old.Count
		h.ReadyAt = earliest(h.ReadyAt, old.ReadyAt)
		h.Early = h.Early || old.Early
	}
	s.pending[h.Queue] = h
}

// run sends what waits until nothing does.
func (s *hinter) run() {
	for {
		s.mu.Lock()
		pending := s.pending
		s.pending = nil
		if len(pending) == 0 {
			s.isRunning = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		hints, jobs := make([]coord.Hint, 0, len(pending)), 0
		for _, h := range pending {
			hints, jobs = append(hints, h), jobs+h.Count
		}
		// Bounded by the bus, which also says in the log when Redis goes and comes. A hint that is lost is made up for
		// by the sweeper's wake and the workers' polls.
		if unmet, _ := s.client.bus.Announce(context.Background(), hints...); unmet > 0 && unmet >= jobs {
			s.rest(pending)
		}
	}
}

// rest waits for hintEvery, or for a hint for a queue that is not among the deaf.
func (s *hinter) rest(deaf map[string]coord.Hint) {
	urgent := make(chan struct{})
	s.mu.Lock()
	s.deaf, s.urgent = deaf, urgent
	for queue := range s.pending { // it came while the script ran
		if _, ok := deaf[queue]; !ok {
			s.urgent = nil
		}
	}
	isUrgent := s.urgent == nil
	s.mu.Unlock()
	if !isUrgent {
		timer := time.NewTimer(hintEvery)
		defer timer.Stop()
		select {
		case <-urgent:
		case <-timer.C:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf, s.urgent = nil, nil
}

// wakeRevived announces jobs that an operator made due.
func (s *hinter) wakeRevived(revived []pgstore.Revived) {
	a := announcements{}
	for _, r := range revived {
		key := subject{r.Queue, r.Kind}
		h, ok := a[key]
		if !ok {
			h = coord.Hint{Queue: r.Queue, Kind: r.Kind, ReadyAt: r.Due}
		}
		h.Count++
		h.ReadyAt = earliest(h.ReadyAt, r.Due)
		a[key] = h
	}
	s.wake(a)
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
