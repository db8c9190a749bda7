package worker

import (
	"slices"
	"time"
)

// hold keeps up to n free slots of a queue for jobs that may be handed to this process while a statement is under way. A
// slot that is kept counts as one that runs, so nothing else starts in it.
func (l *lanes) hold(queue string, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.byName[queue]
	if q == nil || l.closed || n <= 0 {
		return 0
	}
	n = min(n, l.freeLocked(q))
	l.keepLocked(q, n)
	return n
}

// freeLocked is how many slots of a lane nothing runs in or waits for.
func (l *lanes) freeLocked(n *lane) int {
	waiting := 0
	for _, q := range l.all {
		waiting += len(q.waiting)
	}
	return max(min(n.slots-n.running-len(n.waiting), l.limit-l.running-waiting), 0)
}

func (l *lanes) keepLocked(n *lane, slots int) {
	n.running += slots
	l.running += slots
	l.kept += slots
}

// keep turns the slot of a task that has ended into one that is kept: for the next in line of its keys.
func (l *lanes) keep(t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept++
	if t.handler.slots > 0 {
		l.kindLocked(t.handler).running--
	}
}

// place gives kept slots back, so many of each queue, and puts tasks in front of what waits: they hold keys, and what is
// there was claimed ahead. When the lanes have been closed meanwhile the tasks are returned, to be given back.
func (l *lanes) place(tasks []*task, kept map[string]int, now time.Time) (refused []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for queue, n := range kept {
		if n > 0 {
			l.keepLocked(l.byName[queue], -n)
		}
	}
	if l.closed {
		return tasks
	}
	for _, n := range l.all {
		var front []*task
		for _, t := range tasks {
			if t.row.Queue == n.name {
				front = append(front, t)
			}
		}
		if len(front) > 0 {
			l.joinLocked(n)
			n.waiting, n.added = append(front, n.waiting...), now
		}
	}
	return nil
}

// holdKeyed keeps slots for up to n jobs with keys and returns how many may be admitted, and how many slots it kept for them.
// Such jobs are never claimed ahead; but where slots are in use only because handlers are faster than claims, jobs with keys
// go in front of what was claimed ahead, as many as there are slots: so many are free again within a window.
func (l *lanes) holdKeyed(queue string, n int, now time.Time) (room, kept int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.byName[queue]
	if q == nil || l.closed {
		return 0, 0
	}
	if free := l.freeLocked(q); free > 0 {
		room = min(n, free)
		l.keepLocked(q, room)
		return room, room
	}
	if q.limited || q.ahead(now) == 0 || len(q.waiting) == 0 {
		return 0, 0
	}
	room = q.slots
	for _, t := range q.waiting {
		if t.holdsKeys() {
			room--
		}
	}
	return min(max(room, 0), n), 0
}

// setLimited notes whether a queue has a limit for the whole fleet: then nothing is claimed ahead.
func (l *lanes) setLimited(queue string, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byName[queue].limited = limited
	l.limits.Store(slices.ContainsFunc(l.all, func(n *lane) bool { return n.limited }))
}

func (l *lanes) isLimited(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.byName[queue]
	return n != nil && n.limited
}
