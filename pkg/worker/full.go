package worker

import (
	"context"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/pgstore"
)

// isFull reports whether the claim was limited by slots or bytes: there may be more. A queue that has reached a limit of the
// whole fleet has no more for now.
func (d *dispatcher) isFull(got pgstore.Claimed) bool {
	for lane, scans := range got.Scans {
		if slices.Contains(scans[:], pgstore.Cut) && !d.atLimit[lane] {
			return true
		}
	}
	return false
}

// leftOut reports whether the claim passed something over for want of a slot: a whole queue, a priority, a kind. Then a
// slot that is freed must wake us (slotFlag).
func (d *dispatcher) leftOut(each []int, got pgstore.Claimed) bool {
	if len(d.floors) > 0 || slices.Contains(each, 0) {
		return true
	}
	found := len(got.Jobs)+len(got.Missing) > 0 // else the queue is paused
	for _, scans := range got.Scans {
		if slices.Contains(scans[:], pgstore.Cut) || found && slices.Contains(scans[:], pgstore.NotScanned) {
			return true
		}
	}
	return false
}

// passEvery is how often a busy worker tells others of what it leaves.
const passEvery = 50 * time.Millisecond

// owePass notes the queues that had more than this claim could take.
func (d *dispatcher) owePass(got pgstore.Claimed) {
	d.passOwed = d.passOwed[:0]
	for lane, scans := range got.Scans {
		if slices.Contains(scans[:], pgstore.Cut) {
			name := d.w.lanes.all[lane].name
			d.passOwed = append(d.passOwed, coord.Hint{Queue: name, Count: 1, ReadyAt: got.Now.Add(-overlap)})
		}
	}
}

// oweTaken passes on hints that were not forwarded, since a slot was free, where a job that was handed over or admitted has
// that slot by now (fullForward): nobody else was told of their jobs.
func (d *dispatcher) oweTaken(ctx context.Context, each []int) {
	owes := false
	d.mu.Lock()
	for lane, h := range d.taken {
		if each == nil || each[lane] == 0 {
			owes = true
			d.passOwed = append(d.passOwed, coord.Hint{Queue: h.Queue, Kind: h.Kind, Count: h.Count, ReadyAt: h.ReadyAt})
		}
	}
	clear(d.taken) // the claim that follows looks for the others
	d.mu.Unlock()
	if owes {
		d.passedOn = time.Time{}
		d.passOn(ctx)
	}
}

// passOn leaves the idle sets after a claim that filled the slots and wakes one more worker for each queue that had
// more, in one script (fullForward, leaveFirst). It does so every 50 ms at most; what is owed by then is passed on by the
// next claim, or by a dispatcher that waits for a slot.
func (d *dispatcher) passOn(ctx context.Context) {
	if len(d.passOwed) == 0 || !d.w.bus.Enabled() || time.Since(d.passedOn) < passEvery {
		return
	}
	d.passedOn = time.Now()
	var queues []string
	d.mu.Lock()
	for lane, n := range d.w.lanes.all {
		if d.registered[lane] {
			queues = append(queues, n.name)
			d.registered[lane] = false
		}
	}
	d.mu.Unlock()
	if err := d.w.bus.Leave(ctx, d.w.name(), queues, d.passOwed...); err != nil {
		d.w.trouble("redis", err)
	}
	d.passOwed = nil
}
