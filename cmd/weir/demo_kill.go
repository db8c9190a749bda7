package main

import (
	"context"
	"time"
)

// act does what the demo does by itself at this point: hold, kill, follow.
func (d *demo) act(ctx context.Context, now standing) error {
	switch {
	case d.kill != nil:
		return d.followRecovery(ctx)
	case d.isHolding():
		victim, ok := d.choose(now)
		if !ok {
			return nil
		}
		return d.killWorker(ctx, victim, now)
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
func (d *demo) killWorker(ctx context.Context, victim int, now standing) error {
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
	if err := d.countHeld(ctx); err != nil {
		return err
	}
	p, _, err := d.account.process(ctx, w.pid())
	if err != nil {
		return err
	}
	d.screen.say("  %s   SIGKILL at %s done, %d jobs in its hands", w.name, number(int64(now.ended())), d.kill.held)
	d.screen.say("  sweeper    %s's lease (%.0f s here, 15 s by default) ends in %.1f s", d.letter(), demoLease.Seconds(), max(p.Lease, 0).Seconds())
	return nil
}

// countHeld counts what the victim held. What it had sent before it died the server still does, so it is asked until the
// answer stays the same.
func (d *demo) countHeld(ctx context.Context) error {
	for before := -1; before != d.kill.held; {
		before = d.kill.held
		ids, err := d.account.held(ctx, d.sessions[d.victim])
		if err != nil {
			return err
		}
		d.kill.held = d.ledger.countJobs(ids)
		if err := rest(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// letter is how the victim is called for short.
func (d *demo) letter() string { return d.workers[d.victim].name[len("worker "):] }

// followRecovery tells when the victim's jobs were given back, and when all of them have been started again.
func (d *demo) followRecovery(ctx context.Context) error {
	k := d.kill
	if k.isOver {
		return nil
	}
	if !k.isTold {
		held, err := d.account.held(ctx, d.sessions[d.victim])
		if err != nil {
			return err
		}
		ids := d.ledger.which(func(e *entry) bool { return e.isJob && e.isRecovered })
		if len(held) > 0 || len(ids) < k.held {
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
