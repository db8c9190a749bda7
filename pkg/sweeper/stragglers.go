package sweeper

import (
	"context"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/pgstore"
)

const (
	stragglerAge = time.Second // younger ones are wake's
	// stragglerPatience is the longest time between two wakes for rows that stay as they are.
	stragglerPatience = time.Minute
)

// stragglersOnce wakes idle workers for all jobs that have been due for more than a second, read from the start of each
// queue: those behind a scan position, those of a transaction that committed late, those whose hints were lost. Busy
// workers are not woken: they stand in no idle set. It returns how many jobs it announced.
func (s *Sweeper) stragglersOnce(ctx context.Context) (n int, err error) {
	if !s.bus.Enabled() {
		return 0, nil
	}
	queues, err := s.slow.Stragglers(ctx, stragglerAge, wakeLimit)
	if err != nil {
		return 0, err
	}
	if queues, err = fitting(ctx, s.slow, queues); err != nil {
		return 0, err
	}
	hints := map[string]coord.Hint{}
	picked := s.insist.pick(queues, time.Now())
	for _, q := range picked {
		// The least ready_at lowers the scan position of those who are woken.
		h := coord.Hint{Queue: q.Queue, Count: min(q.Due, wakeLimit), ReadyAt: q.Least, Again: true}
		hints[q.Queue] = h
		n += h.Count
	}
	unmet, err := s.announce(ctx, hints)
	if err != nil || unmet >= n {
		s.insist.forget(picked) // nobody was told: the next round tells them, not one of those after it
	}
	if err != nil {
		n = 0 // Redis is away, which the bus has told
	}
	return n, nil
}

// insist remembers for which rows workers were woken in vain: jobs that no worker will take for a reason that the
// database cannot see, such as a mode that it does not run. Else they would wake everybody for ever.
type insist struct {
	mu     sync.Mutex
	queues map[string]insisted
}

type insisted struct {
	least time.Time
	due   int
	wait  time.Duration // until the next wake; doubles while nothing changes
	next  time.Time
}

// pick returns the queues to wake for at now.
func (i *insist) pick(queues []pgstore.DueQueue, now time.Time) []pgstore.DueQueue {
	i.mu.Lock()
	defer i.mu.Unlock()
	seen := make(map[string]insisted, len(queues))
	var out []pgstore.DueQueue
	for _, q := range queues {
		old, known := i.queues[q.Queue]
		switch same := known && old.least.Equal(q.Least) && q.Due >= old.due; {
		case same && now.Before(old.next):
			// More than before is news: what nobody takes may stand before what came now, late or without its hint. As many
			// are woken as came: else a pile that grows would wake everybody each time.
			more := q.Due - old.due
			old.due = q.Due
			seen[q.Queue] = old
			if q.Due = more; more > 0 {
				out = append(out, q)
			}
			continue
		case same:
			old.wait = min(2*old.wait, stragglerPatience)
		default:
			old.wait = stragglersEvery
		}
		// Half a round early: a round that begins a little less than its time after the last one must not be skipped.
		seen[q.Queue] = insisted{least: q.Least, due: q.Due, wait: old.wait, next: now.Add(old.wait - stragglersEvery/2)}
		out = append(out, q)
	}
	i.queues = seen // what is gone is forgotten
	return out
}

// forget makes pick return queues the next time.
func (i *insist) forget(queues []pgstore.DueQueue) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, q := range queues {
		delete(i.queues, q.Queue)
	}
}
