package worker

import (
	"context"
	"slices"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/pgstore"
)

// Queues with a limit for the whole fleet. A claim that such a limit has cut would find no more at once: it follows when a
// job of that queue ends here, or a hint comes, or the next start of its rate is due. Whoever ends a job of such a queue
// claims, and if that brings nothing, wakes another: the room may be for a kind that only others know.

// noteLimits finds the queues whose scans were cut though slots were left, and tells others of room that this process could
// not use.
func (d *dispatcher) noteLimits(ctx context.Context, each []int, total int, got pgstore.Claimed) {
	if !got.Limited {
		clear(d.atLimit)
		if d.w.lanes.limits.Load() {
			d.reviewLimits(got)
			d.wakeForLimited(ctx)
		}
		return
	}
	found := make([]int, len(each))
	sum := 0
	count := func(queue string) {
		found[d.laneOf(queue)]++
		sum++
	}
	for i := range got.Jobs {
		count(got.Jobs[i].Queue)
	}
	for i := range got.Missing {
		count(got.Missing[i].Queue)
	}
	for i := range got.Candidates {
		count(got.Candidates[i].Queue)
	}
	for lane, scans := range got.Scans {
		d.atLimit[lane] = slices.Contains(scans[:], pgstore.Cut) && found[lane] < each[lane] && sum < total
		if d.atLimit[lane] || found[lane] == 0 && each[lane] > 0 && !slices.ContainsFunc(scans[:], wasScanned) { // not even looked at
			d.w.lanes.setLimited(d.w.lanes.all[lane].name, true)
		}
		if found[lane] > 0 {
			d.endLimited(lane)
		}
	}
	d.wakeForLimited(ctx)
}

func wasScanned(s pgstore.Scan) bool { return s != pgstore.NotScanned }

// reviewLimits forgets, with each poll, which queues have limits: those that still do show it by being cut.
func (d *dispatcher) reviewLimits(got pgstore.Claimed) {
	for lane, scans := range got.Scans {
		if got.Snapshot != "" && !slices.Contains(scans[:], pgstore.Cut) {
			d.w.lanes.setLimited(d.w.lanes.all[lane].name, false)
		}
	}
	for i := range got.Jobs {
		d.endLimited(d.laneOf(got.Jobs[i].Queue))
	}
}

// limitedEnded is told that a job has ended here. In a queue with a limit that makes room in the fleet.
func (w *Worker) limitedEnded(queue string) {
	if !w.lanes.limits.Load() || !w.lanes.isLimited(queue) {
		return
	}
	lane := w.disp.laneOf(queue)
	w.disp.mu.Lock()
	w.disp.limitRoom[lane] = true
	w.disp.mu.Unlock()
	w.disp.signal()
}

// endLimited takes note that the room was used here.
func (d *dispatcher) endLimited(lane int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.limitRoom, lane)
}

// wakeForLimited wakes one more worker for each queue whose room this process did not use.
func (d *dispatcher) wakeForLimited(ctx context.Context) {
	if !d.w.lanes.limits.Load() {
		return
	}
	d.mu.Lock()
	var hints []coord.Hint
	for lane := range d.limitRoom {
		hints = append(hints, coord.Hint{Queue: d.w.lanes.all[lane].name, Count: 1})
	}
	clear(d.limitRoom)
	d.mu.Unlock()
	if len(hints) == 0 {
		return
	}
	if err := d.w.bus.Leave(ctx, d.w.name(), nil, hints...); err != nil {
		d.w.trouble("redis", err)
	}
}
