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
