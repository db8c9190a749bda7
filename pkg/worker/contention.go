package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// forceAfter is how many claims in a row may find no turn; the next one does without. Turns are held for milliseconds,
// unless their holders are frozen.
const forceAfter = 5

// giveWay waits a little after a claim that found too many others at work on a queue: 5 ms, doubled each time up to
// 80 ms, jittered by half so that the fleet does not come back as one.
func (d *dispatcher) giveWay(ctx context.Context) {
	wait := 5 * time.Millisecond << min(d.contended, 4)
	d.contended++
	d.w.stats.contended.Add(1)
	sleep(ctx, wait/2+rand.N(wait))
}

// letOthers waits a little after a round in which others were quicker with every job: 10 ms, doubled each time up to
// 200 ms, jittered by half. Where only slots were missing, one that is freed wakes us.
func (d *dispatcher) letOthers(ctx context.Context) (again bool, err error) {
	if d.noRoom {
		return false, nil
	}
	wait := min(10*time.Millisecond<<min(d.beaten, 5), 200*time.Millisecond)
	d.beaten++
	timer := time.NewTimer(wait/2 + rand.N(wait/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.wake: // a hint, or a slot
		d.signal()
	}
	return true, nil
}
