package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// pollListed is the longest time between two polls with Redis: each registers anew, and an idle set that nobody has
// refreshed for two minutes is gone, so that no hint finds its workers.
const pollListed = time.Minute

// pollEvery is how long to the next poll.
func (d *dispatcher) pollEvery() time.Duration {
	switch {
	case d.w.cfg.Poll > 0 && d.w.bus.Enabled():
		return min(d.w.cfg.Poll, pollListed)
	case d.w.cfg.Poll > 0:
		return d.w.cfg.Poll
	case d.w.sweeperLives():
		return pollWithSweeper
	}
	return pollAlone
}

// stalledClaim is how long a claim takes that was held up together with those of others.
const stalledClaim = 500 * time.Millisecond

// nextPoll is how long to the next poll. A stall of the database ends for a whole fleet at once, and a little jitter
// keeps its polls together for many rounds: after one they are spread over the whole interval.
func (d *dispatcher) nextPoll(stalled bool) time.Duration {
	every := d.pollEvery()
	d.relies = d.w.cfg.Poll == 0 && every == pollWithSweeper
	if stalled {
		return rand.N(every) + time.Millisecond
	}
	return jitter(every)
}

// reviewEvery is how often a sleeper that relies on hints asks itself whether they can still come.
const reviewEvery = time.Second

// listEvery is how often a sleeper that relies on hints registers anew.
const listEvery = 5 * time.Second

// refresh registers anew: Redis may have lost the idle sets without a trace (FLUSHALL), and the next poll is far. No claim
// need follow, as it must on a first registration: what was announced meanwhile the sweeper announces again.
func (d *dispatcher) refresh(ctx context.Context) {
	if d.relies && time.Since(d.listedAt) >= listEvery {
		d.register(ctx, true)
	}
}

// reviewPoll brings a poll nearer that was put off since a sweeper and Redis were up, when they are not any more. All
// workers of a fleet see that at once: they spread over the shorter interval.
func (d *dispatcher) reviewPoll() {
	if d.relies && !d.w.sweeperLives() {
		d.relies = false
		d.pollAt = earlier(d.pollAt, time.Now().Add(rand.N(pollAlone)))
	}
}

// armNext remembers when the next job comes due, unless a sweeper announces it: a fleet of timers would wake everyone.
func (d *dispatcher) armNext(got pgstore.Claimed, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.w.sweeperLives() && !got.Limited { // that a queue's rate has room again nobody announces
		d.due = time.Time{}
		return
	}
	if d.due.Before(now) { // else dueAgain set it, perhaps for a job that the claim was too early to see
		d.due = time.Time{}
	}
	if got.Next.IsZero() {
		return
	}
	wait := got.Next.Sub(got.Now)
	if !found {
		wait = max(wait, 50*time.Millisecond) // it may be of a kind that nobody here knows: do not chase those
	}
	if at := now.Add(wait); d.due.IsZero() || at.Before(d.due) {
		d.due = at
	}
}

// dueAgain is told of a job of this process that will be due again.
func (d *dispatcher) dueAgain(queue string, at time.Time, wait time.Duration) {
	if wait <= overlap { // near enough to be passed by a scan that is under way
		d.lower(queue, at)
	}
	if d.w.sweeperLives() {
		return
	}
	now := time.Now()
	when := now.Add(wait)
	d.mu.Lock()
	sooner := d.due.Before(now) || when.Before(d.due) // one that has passed is about to be replaced
	if sooner {
		d.due = when
	}
	d.mu.Unlock()
	if sooner {
		d.signal() // the sleeper arms its timer anew
	}
}

// fullLook is how often a dispatcher without room looks, for what no slot tells: results that were written after an
// outage, tasks that have waited for too long, a hint that is owed to others.
const fullLook = 100 * time.Millisecond

// sleep waits for the flag, a timer of its own, a probe or the poll.
func (d *dispatcher) sleep(ctx context.Context) {
	for {
		d.reviewPoll()
		until, pending := d.sleepUntil()
		if pending {
			return
		}
		next := until
		if d.relies {
			next = earlier(until, time.Now().Add(reviewEvery))
		}
		timer := time.NewTimer(max(time.Until(next), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.wake:
			timer.Stop()
			return
		case <-timer.C:
		}
		if next.Equal(until) {
			return
		}
		d.refresh(ctx)
	}
}

// sleepUntil returns when to look again if nothing happens, and whether something has.
func (d *dispatcher) sleepUntil() (until time.Time, pending bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	until = d.pollAt
	switch {
	case d.full:
		until = time.Now().Add(fullLook)
	case d.w.lanes.hasWaiting():
		until = earlier(until, time.Now().Add(stall))
	}
	if !d.full && !d.due.IsZero() && d.due.Before(until) {
		until = d.due
	}
	if !d.full && len(d.reminders) > 0 {
		until = earlier(until, d.reminders[0])
	}
	for _, p := range d.probes {
		if !d.full && p.next.Before(until) {
			until = p.next
		}
	}
	return until, d.pending
}
