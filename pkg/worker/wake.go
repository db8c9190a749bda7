package worker

import (
	"context"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
)

// probeAfter are the waits of a series of re-probes after a hint whose transaction has not committed yet.
var probeAfter = []time.Duration{
	20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
	500 * time.Millisecond, 1000 * time.Millisecond, 2000 * time.Millisecond,
}

// probe is a series of re-probes; a lane has one at a time, and further hints prolong it. Each hint is looked after for
// two seconds at least, by what the series goes back to, and four at most.
type probe struct {
	from   time.Time // least ready_at announced, on the database clock
	fresh  time.Time // the least of those announced since turned; takes from's place two seconds after. Zero: none
	turned time.Time // local
	step   int
	begun  time.Time
	next   time.Time // local
}

func newProbe(from, now time.Time) *probe {
	return &probe{from: from, fresh: from, turned: now, begun: now, next: now.Add(probeAfter[0])}
}

// prolong begins the series anew for a further hint. What is due sooner stays due: hints that come without end must not
// put the looking off.
func (p *probe) prolong(from, now time.Time) {
	if from.Before(p.from) {
		p.from = from
	}
	if p.fresh.IsZero() || from.Before(p.fresh) {
		p.fresh = from
	}
	p.step, p.begun = 0, now
	if first := now.Add(probeAfter[0]); first.Before(p.next) {
		p.next = first
	}
}

// fire returns from where to look now, and whether the series is over.
func (p *probe) fire(now time.Time) (from time.Time, over bool) {
	from = p.from
	if now.Sub(p.turned) >= probeAfter[len(probeAfter)-1] && !p.fresh.IsZero() {
		p.from, p.fresh, p.turned = p.fresh, time.Time{}, now
	}
	if p.step++; p.step == len(probeAfter) {
		return from, true
	}
	p.next = p.begun.Add(probeAfter[p.step])
	return from, false
}

// name is this process' name on the bus: its first session's id would change, the client's does not.
func (w *Worker) name() string { return w.busName }

// receiver is what the bus calls, in its own goroutine: nothing here waits.
func (w *Worker) receiver() coord.Receiver {
	return coord.Receiver{
		OnHint:    func(h coord.Hint) { w.onHint(h) },
		OnControl: w.onControl,
		OnSubscribed: func() { // for what was announced while the bus was away
			w.disp.forgetRegistration()
			w.disp.signal()
		},
	}
}

// onHint takes a hint, or passes it on: a worker without a free slot (busyForward), without the kind (kindForward) or on
// its way out (closeForward) must not let it end here.
func (w *Worker) onHint(h coord.Hint) {
	lane := w.disp.laneOf(h.Queue)
	if lane >= 0 {
		w.disp.popped(lane, h.Stays)
	}
	if !w.canTake(h) {
		w.forward(h)
		if lane >= 0 && w.knows(h.Kind) {
			w.disp.hint(lane, h) // a slot that is freed looks there
		} else if lane >= 0 {
			w.disp.signal() // it was taken out of the idle set: register again
		}
		return
	}
	w.disp.take(lane, h)
	w.disp.hint(lane, h)
}

// localWake takes the hint of an enqueue in this very process, without Redis.
func (w *Worker) localWake(h coord.Hint) (taken bool) {
	lane := w.disp.laneOf(h.Queue)
	if lane < 0 || !w.knows(h.Kind) || w.closing.Load() {
		return false
	}
	if taken = w.canTake(h); taken {
		w.disp.take(lane, h)
	}
	w.disp.hint(lane, h) // also without a free slot: one that is freed looks there
	return taken
}

// canTake reports whether a hint's job could start here now.
func (w *Worker) canTake(h coord.Hint) bool {
	return !w.closing.Load() && w.knows(h.Kind) && w.lanes.free(h.Queue) > 0
}

func (w *Worker) knows(kind string) bool {
	if kind == "" {
		return true
	}
	_, ok := w.handlers[kind]
	return ok
}

// onControl is told of a change that is a row already; the renewal would bring it too.
func (w *Worker) onControl(c coord.Control) {
	switch c.Verb {
	case "cancel":
		id, err := job.ParseID(c.ID)
		if c.ID == "" || err == nil && w.tasks.get(id) != nil { // no id: more than are named one by one
			w.kickSession() // read the row: a message is never an order
		}
	case "resume":
		w.disp.lookAtAll()
		w.kickSession()
	case "pause":
		w.kickSession()
	}
}

// forward hands a hint to the goroutine that passes hints on; when that is overrun the hint is dropped, and the
// sweeper's wake or a poll finds the row.
func (w *Worker) forward(h coord.Hint) {
	select {
	case w.forwards <- h:
	default:
		w.stats.hintsDropped.Add(1)
	}
}

func (w *Worker) runForwards(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case h := <-w.forwards:
			if err := w.bus.Forward(ctx, h); err != nil {
				w.trouble("redis", err)
			}
		}
	}
}

// wakeOthers announces jobs that this process gave back.
func (w *Worker) wakeOthers(ctx context.Context, hints map[string]*coord.Hint) {
	list := make([]coord.Hint, 0, len(hints))
	for _, h := range hints {
		w.disp.lower(h.Queue, h.ReadyAt)
		list = append(list, *h)
	}
	if err := w.bus.Wake(ctx, list...); err != nil {
		w.trouble("redis", err)
	}
	if !w.closing.Load() {
		w.disp.signal()
	}
}

func (d *dispatcher) laneOf(queue string) int {
	for i, n := range d.w.lanes.all {
		if n.name == queue {
			return i
		}
	}
	return -1
}

// hint lowers the lane's cursor and wakes the dispatcher. One that comes before its commit starts a series of probes,
// unless one is under way.
func (d *dispatcher) hint(lane int, h coord.Hint) {
	d.mu.Lock()
	d.lowerLocked(lane, h.ReadyAt)
	if h.Early {
		now := time.Now()
		if p := d.probes[lane]; p != nil {
			p.prolong(h.ReadyAt, now)
		} else {
			d.probes[lane] = newProbe(h.ReadyAt, now)
		}
	}
	d.mu.Unlock()
	d.signal()
}

// take notes a hint that is not passed on, since a slot is free for its jobs.
func (d *dispatcher) take(lane int, h coord.Hint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.taken[lane]; ok {
		if h.Kind != old.Kind {
			h.Kind = ""
		}
		h.Count += old.Count
		if old.ReadyAt.Before(h.ReadyAt) {
			h.ReadyAt = old.ReadyAt
		}
	}
	d.taken[lane] = h
}

// fireProbes lowers the cursors of the lanes whose probe is due.
func (d *dispatcher) fireProbes(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for lane, p := range d.probes {
		if p.next.After(now) {
			continue
		}
		from, over := p.fire(now)
		d.lowerLocked(lane, from)
		if over {
			delete(d.probes, lane)
		}
	}
}

func (d *dispatcher) lower(queue string, at time.Time) {
	if lane := d.laneOf(queue); lane >= 0 {
		d.mu.Lock()
		d.lowerLocked(lane, at)
		d.mu.Unlock()
	}
}

func (d *dispatcher) lowerLocked(lane int, at time.Time) {
	if at.IsZero() {
		d.lowerAll = true
		return
	}
	if old, ok := d.lowers[lane]; !ok || at.Before(old) {
		d.lowers[lane] = at
	}
}

// applyLowers moves what was announced since the last claim into the cursors.
func (d *dispatcher) applyLowers() {
	d.mu.Lock()
	lowers, all := d.lowers, d.lowerAll
	d.lowers, d.lowerAll = make(map[int]time.Time), false
	d.mu.Unlock()
	if all {
		d.mark.reset()
	}
	for lane, at := range lowers {
		d.mark.lower(lane, at)
	}
}

// looksAtAll reports whether the next claim scans everything. Then it is a poll: only a poll ends that, and the one after it
// would do so once more.
func (d *dispatcher) looksAtAll() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lowerAll
}

// lookAtAll makes the next claim scan everything.
func (d *dispatcher) lookAtAll() {
	d.mu.Lock()
	d.lowerAll = true
	d.mu.Unlock()
	d.signal()
}

// unserved returns hints for what was announced and not looked after by a claim since.
func (d *dispatcher) unserved() []coord.Hint {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []coord.Hint
	for _, n := range d.w.lanes.all {
		if d.lowerAll { // a hint that did not know its time
			out = append(out, coord.Hint{Queue: n.name, Count: 1})
		}
	}
	for lane, at := range d.lowers {
		out = append(out, coord.Hint{Queue: d.w.lanes.all[lane].name, Count: 1, ReadyAt: at})
	}
	for lane, p := range d.probes {
		out = append(out, coord.Hint{Queue: d.w.lanes.all[lane].name, Count: 1, ReadyAt: p.from, Early: true})
	}
	return out
}
