package worker

import (
	"slices"
	"time"
)

// heldLocked counts, per kind with a cap, what runs and what waits.
func (l *lanes) heldLocked() map[*handler]int {
	held := make(map[*handler]int, len(l.kinds))
	for h, k := range l.kinds {
		held[h] = k.running
	}
	for _, n := range l.all {
		for _, t := range n.waiting {
			if t.handler.slots > 0 {
				held[t.handler]++
			}
		}
	}
	return held
}

// takeExcess takes back, from the end, the waiting tasks of capped kinds that will not start within a window: a claim
// knows no caps, and such tasks would keep the lane's slots from other kinds and themselves from other workers.
func (l *lanes) takeExcess(now time.Time) (out []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.heldLocked()
	for h, n := range held {
		held[h] = n - h.slots - l.kindLocked(h).ahead(now) // too many by so many
	}
	for _, n := range l.all {
		for i := len(n.waiting) - 1; i >= 0; i-- {
			t := n.waiting[i]
			if t.handler.slots == 0 || held[t.handler] <= 0 {
				continue
			}
			held[t.handler]--
			n.waiting = slices.Delete(n.waiting, i, i+1)
			out = append(out, t)
		}
	}
	slices.Reverse(out)
	return out
}

// stall is how long a lane starts nothing until what waits in it is given back: others may be idle.
const stall = time.Second

// hasWaiting reports whether anything claimed has not started.
func (l *lanes) hasWaiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(n *lane) bool { return len(n.waiting) > 0 })
}

// takeStalled takes back what waits in lanes that have not started anything for a while.
func (l *lanes) takeStalled(now time.Time) (out []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.all {
		if len(n.waiting) > 0 && now.Sub(n.last) > stall && now.Sub(n.added) > stall {
			out = append(out, n.waiting...)
			n.waiting = nil
		}
	}
	return out
}
