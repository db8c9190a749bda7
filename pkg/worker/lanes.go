package worker

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// lane is one queue in this process.
type lane struct {
	name    string
	slots   int
	weight  int
	limited bool  // for the whole fleet: nothing is claimed ahead
	modes   modes // in which its jobs run; settled when the worker begins

	running int     // with the slots that are kept
	waiting []*task // claimed, not started, in order
	added   time.Time
	served  float64 // starts / weight: the least is served next when Concurrency binds

	pace
}

// lanes decides which claimed job starts next, and how many more may be claimed.
type lanes struct {
	mu      sync.Mutex
	all     []*lane
	byName  map[string]*lane
	limit   int                  // Concurrency
	running int                  // with the slots that are kept
	kept    int                  // of them, for jobs that may be handed to this process
	clock   float64              // served of the last lane that was served, before: where one that was idle joins in
	kinds   map[*handler]*capped // handlers with a cap
	closed  bool                 // nothing starts any more
	limits  atomic.Bool          // any lane is limited
}

// capped is a kind with Slots of its own.
type capped struct {
	running int
	pace
}

func newLanes(queues []Queue, limit int) *lanes {
	l := &lanes{limit: limit, byName: make(map[string]*lane), kinds: make(map[*handler]*capped)}
	for _, q := range queues {
		n := &lane{name: q.Name, slots: q.Slots, weight: q.Weight}
		l.all = append(l.all, n)
		l.byName[q.Name] = n
	}
	return l
}

// add queues claimed tasks behind those that wait.
func (l *lanes) add(tasks []*task, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		n := l.byName[t.row.Queue]
		l.joinLocked(n)
		n.waiting, n.added = append(n.waiting, t), now
	}
}

// take starts the next task that may run, or returns nil.
func (l *lanes) take(now time.Time) *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takeLocked(now)
}

// done frees the slot of t and takes the next task, if one may start.
func (l *lanes) done(t *task, now time.Time) *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.byName[t.row.Queue].running--
	if t.handler.slots > 0 {
		l.kindLocked(t.handler).running--
	}
	return l.takeLocked(now)
}

func (l *lanes) takeLocked(now time.Time) *task {
	if l.closed || l.running >= l.limit {
		return nil
	}
	var best *lane
	at := -1
	for _, n := range l.all {
		if n.running >= n.slots || best != nil && n.served >= best.served {
			continue
		}
		if i := l.startableLocked(n); i >= 0 {
			best, at = n, i
		}
	}
	if best == nil {
		return nil
	}
	t := best.waiting[at]
	if at == 0 {
		best.waiting[0] = nil
		best.waiting = best.waiting[1:]
	} else {
		best.waiting = slices.Delete(best.waiting, at, at+1)
	}
	best.running++
	if best.last = now; !t.holdsKeys() { // which is not claimed ahead
		best.count(now, best.slots)
	}
	l.clock = max(l.clock, best.served)
	best.served += 1 / float64(best.weight)
	l.running++
	if t.handler.slots > 0 {
		k := l.kindLocked(t.handler)
		k.running++
		k.count(now, t.handler.slots)
	}
	return t
}

// startableLocked returns the first waiting task whose kind has a free slot, or -1.
func (l *lanes) startableLocked(n *lane) int {
	for i, t := range n.waiting {
		if t.handler.slots == 0 || l.kindLocked(t.handler).running < t.handler.slots {
			return i
		}
	}
	return -1
}

func (l *lanes) kindLocked(h *handler) *capped {
	k := l.kinds[h]
	if k == nil {
		k = new(capped)
		l.kinds[h] = k
	}
	return k
}

// joinLocked gives a lane that was idle its turn with the others: it has no claim on the past.
func (l *lanes) joinLocked(n *lane) {
	if n.running == 0 && len(n.waiting) == 0 {
		n.served = max(n.served, l.clock)
	}
}

// wanted is how many jobs of each lane may be claimed now, and of all together.
func (l *lanes) wanted(now time.Time) (each []int, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	each = make([]int, len(l.all))
	waiting, prefetch := 0, 0
	for i, n := range l.all {
		waiting += len(n.waiting)
		ahead := n.ahead(now)
		if n.limited {
			ahead = 0
		}
		prefetch += ahead
		room := n.slots + ahead - n.running - len(n.waiting)
		if len(n.waiting) > ahead/2 && ahead > 0 && n.running >= n.slots {
			continue // half the prefetch is still there: a larger claim a little later costs less
		}
		each[i] = max(room, 0)
	}
	total = max(l.limit+prefetch-l.running-waiting, 0)
	sum := 0
	for _, n := range each {
		sum += n
	}
	return each, min(total, sum)
}

// order returns the lanes' indexes, the least served for its weight first.
func (l *lanes) order() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	index := make([]int, len(l.all))
	for i, n := range l.all {
		index[i] = i
		l.joinLocked(n)
	}
	slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(l.all[a].served, l.all[b].served) })
	return index
}

// rooms returns how many more jobs of each capped kind may be claimed: for its slots, and what it starts within a window.
func (l *lanes) rooms(capped []*handler, now time.Time) map[*handler]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.heldLocked()
	rooms := make(map[*handler]int, len(capped))
	for _, h := range capped {
		rooms[h] = max(h.slots+l.kindLocked(h).ahead(now)-held[h], 0)
	}
	return rooms
}

// free returns the free slots of a queue, -1 if it is not served here.
func (l *lanes) free(queue string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.byName[queue]
	if !ok {
		return -1
	}
	return max(min(n.slots-n.running-len(n.waiting), l.limit-l.running), 0)
}

// idle returns the free slots of each lane, in order.
func (l *lanes) idle() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := make([]int, len(l.all))
	for i, n := range l.all {
		free[i] = max(min(n.slots-n.running-len(n.waiting), l.limit-l.running), 0)
	}
	return free
}

// busy returns how many jobs run and how many slots there are.
func (l *lanes) busy() (running, slots int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.all {
		slots += n.slots
	}
	return l.running - l.kept, min(slots, l.limit)
}

// takeWaiting empties the lanes of what has not started, for release; keep decides which stay.
func (l *lanes) takeWaiting(keep func(*task) bool) []*task {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*task
	for _, n := range l.all {
		stay := n.waiting[:0]
		for _, t := range n.waiting {
			if keep(t) {
				stay = append(stay, t)
			} else {
				out = append(out, t)
			}
		}
		clear(n.waiting[len(stay):])
		n.waiting = stay
	}
	return out
}

// reopen undoes close.
func (l *lanes) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = false
}

// close stops the starting of tasks.
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}
