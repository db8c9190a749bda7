package worker

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// prefetchWindow is how far ahead jobs are claimed: what handlers will start within it.
const prefetchWindow = 100 * time.Millisecond

// maxPrefetch bounds the jobs that wait in this process, so that a sudden stall keeps few from others.
const maxPrefetch = 2000

// lane is one queue in this process.
type lane struct {
	name   string
	slots  int
	weight int

	running int
	waiting []*task // claimed, not started, in order
	served  float64 // starts / weight: the least is served next when Concurrency binds

	windowStart time.Time // of the count of starts that sets the prefetch
	starts      int
	prefetch    int
}

// lanes decides which claimed job starts next, and how many more may be claimed.
type lanes struct {
	mu      sync.Mutex
	all     []*lane
	byName  map[string]*lane
	limit   int // Concurrency
	running int
	kinds   map[*handler]int // running, for handlers with a cap
	closed  bool             // nothing starts any more
}

func newLanes(queues []Queue, limit int) *lanes {
	l := &lanes{limit: limit, byName: make(map[string]*lane), kinds: make(map[*handler]int)}
	for _, q := range queues {
		n := &lane{name: q.Name, slots: q.Slots, weight: q.Weight}
		l.all = append(l.all, n)
		l.byName[q.Name] = n
	}
	return l
}

// add queues claimed tasks behind those that wait.
func (l *lanes) add(tasks []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		n := l.byName[t.row.Queue]
		n.waiting = append(n.waiting, t)
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
		l.kinds[t.handler]--
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
	best.count(now)
	best.served += 1 / float64(best.weight)
	l.running++
	if t.handler.slots > 0 {
		l.kinds[t.handler]++
	}
	return t
}

// startableLocked returns the first waiting task whose kind has a free slot, or -1.
func (l *lanes) startableLocked(n *lane) int {
	for i, t := range n.waiting {
		if t.handler.slots == 0 || l.kinds[t.handler] < t.handler.slots {
			return i
		}
	}
	return -1
}

// count measures starts and, once a window, sets the prefetch to what was started in it.
func (n *lane) count(now time.Time) {
	n.starts++
	since := now.Sub(n.windowStart)
	if since < prefetchWindow {
		// A full window is not needed to see that handlers are faster than claims: grow at once, shrink by windows.
		n.prefetch = max(n.prefetch, min(n.starts-n.slots, maxPrefetch))
		return
	}
	n.prefetch = 0
	if since < 2*prefetchWindow {
		n.prefetch = min(max(n.starts-n.slots, 0), maxPrefetch)
	}
	n.windowStart, n.starts = now, 0
}

// wanted is how many jobs of each lane may be claimed now, and of all together.
func (l *lanes) wanted() (each []int, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	each = make([]int, len(l.all))
	waiting, prefetch := 0, 0
	for i, n := range l.all {
		waiting += len(n.waiting)
		prefetch += n.prefetch
		room := n.slots + n.prefetch - n.running - len(n.waiting)
		if len(n.waiting) > n.prefetch/2 && n.prefetch > 0 && n.running >= n.slots {
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
	low := l.all[0].served
	for i, n := range l.all {
		index[i] = i
		low = min(low, n.served)
	}
	for _, n := range l.all {
		n.served = min(n.served-low, 1e6) // a lane that was idle for long has no claim on the past
	}
	slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(l.all[a].served, l.all[b].served) })
	return index
}

// fullKinds returns the handlers whose cap is reached, waiting ones counted: no more of them is claimed.
func (l *lanes) fullKinds() map[*handler]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(map[*handler]int)
	for h, n := range l.kinds {
		held[h] = n
	}
	for _, n := range l.all {
		for _, t := range n.waiting {
			if t.handler.slots > 0 {
				held[t.handler]++
			}
		}
	}
	full := make(map[*handler]bool)
	for h, n := range held {
		if n >= h.slots {
			full[h] = true
		}
	}
	return full
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
	return l.running, min(slots, l.limit)
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

// close stops the starting of tasks.
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}
