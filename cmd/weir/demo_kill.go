package main

import (
	"context"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// act does what the demo does by itself at this point: hold, kill, follow.
func (d *demo) act(ctx context.Context, now standing, pids [2]int) error {
	switch {
	case d.kill != nil:
		return d.followRecovery(ctx, now)
	case d.isHolding():
		victim, ok := d.choose(now)
		if !ok {
			return nil
		}
		return d.killWorker(ctx, victim, now, pids)
	case now.ended() >= d.holdAt():
		return d.hold()
	}
	return nil
}

// holdAt is how many jobs have ended when the workers are told to hold: about half, but early enough in a small demo that
// there are jobs enough left for a worker to have its hands full.
func (d *demo) holdAt() int {
	n := len(d.jobs)
	if n >= fewJobs {
		return n / 2
	}
	return max(min(n/2, n-fewJobs/4), 0)
}

func (d *demo) isHolding() bool { return d.holding[0] || d.holding[1] }

// hold makes B's handlers begin but not end, so that its slots fill up and stay full: between the database's answer that
// it holds enough and SIGKILL, a fast machine would run all of them. When few jobs are left A holds too, or it would
// leave none for B.
func (d *demo) hold() error {
	for i, w := range d.workers {
		if i == 0 && len(d.jobs) >= fewJobs {
			continue
		}
		if err := w.order(orderHold); err != nil {
			return err
		}
		d.holding[i] = true
	}
	return nil
}

// choose returns the worker to kill once one that holds has its hands full, or all that is left is in such hands.
func (d *demo) choose(now standing) (victim int, ok bool) {
	const a, b = 0, 1
	inHand, victim := 0, b
	for i, holds := range d.holding {
		if holds {
			inHand += now.running[i]
		}
	}
	if d.holding[a] && now.running[a] > now.running[b] {
		victim = a
	}
	isAll := now.running[victim] > 0 && inHand >= len(d.jobs)-now.ended()
	return victim, isAll || now.running[victim] >= mustHold
}

// killWorker kills and asks what the victim held.
func (d *demo) killWorker(ctx context.Context, victim int, now standing, pids [2]int) error {
	d.victim = victim
	d.kill = &kill{at: time.Now()}
	w := d.workers[victim]
	if err := w.kill(); err != nil {
		return err
	}
	if other := 1 - victim; d.holding[other] {
		if err := d.workers[other].order(orderGo); err != nil {
			return err
		}
	}
	after, err := d.account.standing(ctx, job.DefaultQueue, pids)
	if err != nil {
		return err
	}
	d.kill.held = after.running[victim]
	left, err := d.account.leaseLeft(ctx, pids[victim])
	if err != nil {
		return err
	}
	d.screen.say("  %s   SIGKILL at %s done, %d jobs in its hands", w.name, number(int64(now.ended())), d.kill.held)
	d.screen.say("  sweeper    %s's lease (%.0f s here, 15 s by default) ends in %.1f s", d.letter(), demoLease.Seconds(), left.Seconds())
	return nil
}

// letter is how the victim is called for short.
func (d *demo) letter() string { return d.workers[d.victim].name[len("worker "):] }

// followRecovery tells when the victim's jobs were given back, and when all of them have been started again.
func (d *demo) followRecovery(ctx context.Context, now standing) error {
	k := d.kill
	if k.isOver {
		return nil
	}
	if !k.isTold {
		ids, err := d.account.recovered(ctx, job.DefaultQueue)
		if err != nil {
			return err
		}
		if len(ids) == 0 || now.running[d.victim] > 0 {
			return nil // nothing yet, or not all
		}
		k.recovered, k.isTold = ids, true
		d.screen.say("  sweeper    %d jobs of %s recovered %.1f s after the kill", len(ids), d.letter(), time.Since(k.at).Seconds())
	}
	if n, last := d.ledger.since(k.recovered, k.at); n == len(k.recovered) {
		k.isOver = true
		d.screen.say("  %s   all %d running again %.1f s after the kill", d.workers[1-d.victim].name, n, last.Sub(k.at).Seconds())
	}
	return nil
}
