package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirq/weir/internal/demojobs"
	"github.com/weirq/weir/pkg/job"
)

const (
	// fewJobs is where a demo becomes so small that one worker alone could do the rest while the other fills its slots.
	fewJobs = 400
	// patience is how much longer than its pace a demo may take before it is given up: three leases, and a slow machine.
	patience = 40 * time.Second
	// probeEvery is how often the pickup is measured; probeSlots keep room for it in each worker.
	probeEvery = 40 * time.Millisecond
	probeSlots = 2
)

// kill is what is known about the worker that was killed.
type kill struct {
	at        time.Time
	held      int      // jobs that it ran then, by the database's account
	recovered []job.ID // those that the sweeper gave back
	isTold    bool
	isOver    bool // all of them were started again
}

// show runs the jobs, kills a worker, waits until all have ended, and counts.
func (d *demo) show(ctx context.Context) (*figures, error) {
	var err error
	// First: a sweeper calls nobody dead before it has watched for a lease.
	if d.sweeper, err = d.startChild("sweeper", "", orderGo); err != nil {
		return nil, err
	}
	if err := d.enqueue(ctx); err != nil {
		return nil, err
	}
	if err := d.startWorkers(ctx); err != nil {
		return nil, err
	}
	var probing sync.WaitGroup
	var probeErr error
	stop := make(chan struct{})
	probing.Go(func() { probeErr = d.probe(ctx, stop) })
	last, err := d.watch(ctx)
	took := time.Since(d.begun)
	close(stop)
	probing.Wait()
	d.screen.clear()
	if err := errors.Join(err, probeErr); err != nil {
		return nil, err
	}
	return d.count(ctx, last, took)
}

// startChild starts a process that ends, at the latest, with the demo.
func (d *demo) startChild(role, name, first string) (*child, error) {
	environ := append(d.environ(), "WEIR_DEMO_EACH="+d.pace.each.String(), demojobs.DirEnv+"="+d.input.root)
	c, err := startChild(role, name, environ, first, d.ledger)
	if c != nil {
		d.atEnd(c.stop)
	}
	return c, err
}

// enqueue stores a job for each input.
func (d *demo) enqueue(ctx context.Context) (err error) {
	if d.walAt, err = d.account.wal(ctx); err != nil {
		return err
	}
	begun := time.Now()
	specs := make([]job.Spec, len(d.input.jobs))
	for i, f := range d.input.jobs {
		// A file that cannot be read any more is given up soon: the demo waits for its end.
		options := job.Options{MaxAttempts: 3, Backoff: job.Fixed(200 * time.Millisecond)}
		specs[i] = job.Spec{Args: demojobs.Checksum{Path: d.input.files[f].name}, Options: options}
	}
	for len(specs) > 0 {
		n := min(len(specs), 10_000)
		stored, err := d.client.EnqueueMany(ctx, specs[:n])
		if err != nil {
			return err
		}
		for _, e := range stored {
			d.jobs = append(d.jobs, e.ID)
		}
		specs = specs[n:]
	}
	d.ledger.enqueued(d.jobs)
	d.screen.say("  enqueue    %s jobs in %d ms, one statement per 1,000", number(int64(len(d.jobs))), time.Since(begun).Milliseconds())
	return nil
}

// startWorkers starts both workers and waits until they have registered.
func (d *demo) startWorkers(ctx context.Context) (err error) {
	first := orderGo
	if d.holdAt() == 0 {
		first, d.holding = orderHold, [2]bool{true, true}
	}
	d.begun = time.Now()
	for i, name := range []string{"A", "B"} {
		if d.workers[i], err = d.startChild("worker", name, first); err != nil {
			return err
		}
	}
	for _, w := range d.workers {
		if err := d.awaitProcess(ctx, w); err != nil {
			return err
		}
	}
	d.screen.say("  worker A   %d slots  started        worker B   %d slots  started", slotsEach, slotsEach)
	d.screen.say("  pace       a job takes at least %v, so that there is something to see", d.pace.each.Round(time.Millisecond/10))
	return nil
}

// childrenLive returns an error for a process that ended without being killed.
func (d *demo) childrenLive() error {
	for _, c := range []*child{d.sweeper, d.workers[0], d.workers[1]} {
		isVictim := d.kill != nil && c == d.workers[d.victim]
		if c != nil && c.ended() && !isVictim {
			return c.failure(errors.New("ended by itself"))
		}
	}
	return nil
}

// probe enqueues echo jobs, one by one, for slots that are free: what the others wait is the length of their queue, what
// these wait is the way of a job. It returns when stop is closed.
func (d *demo) probe(ctx context.Context, stop <-chan struct{}) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		args := demojobs.Echo{RawMessage: json.RawMessage(fmt.Sprintf(`{"probe":%d}`, i))}
		called := time.Now()
		e, err := d.client.Enqueue(ctx, args, job.Options{Queue: probeQueue})
		if err != nil {
			return err
		}
		d.ledger.probed(e.ID, called)
	}
}

// watch follows the jobs until all have ended, and in between kills a worker and follows what becomes of its jobs.
func (d *demo) watch(ctx context.Context) (standing, error) {
	var speed speed
	for {
		asked := time.Now()
		now, err := d.look(ctx)
		if err != nil {
			return now, err
		}
		took := time.Since(asked)
		if err := d.childrenLive(); err != nil {
			return now, err
		}
		if err := d.act(ctx, now); err != nil {
			return now, err
		}
		d.screen.progress(now.ended(), len(d.jobs), speed.at(asked, now.ended()))
		if now.ended() >= len(d.jobs) && d.kill != nil {
			return now, nil
		}
		if time.Since(d.begun) > d.pace.whole+patience {
			d.giveUp(len(d.jobs) - now.ended())
			return now, nil
		}
		wait := max(100*time.Millisecond, 10*took) // looking on must not cost more than a tenth
		if d.kill == nil && d.isHolding() {
			wait = 10 * time.Millisecond
		}
		if err := rest(ctx, wait); err != nil {
			return now, err
		}
	}
}

// giveUp tells what the processes have said, since they may know why.
func (d *demo) giveUp(left int) {
	d.screen.say("  given up   after %.0f s with %s jobs not ended", time.Since(d.begun).Seconds(), number(int64(left)))
	for _, c := range []*child{d.sweeper, d.workers[0], d.workers[1]} {
		for _, line := range c.stderr.lines() {
			for ; line != ""; line = line[min(len(line), 60):] {
				d.screen.say("  %-10s %.60s", c.name, line)
			}
		}
	}
}

// rest waits for d, or returns why ctx has ended.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// until asks again and again whether something is so.
func until(ctx context.Context, every time.Duration, is func() (bool, error)) error {
	for {
		yes, err := is()
		if yes || err != nil {
			return err
		}
		if err := rest(ctx, every); err != nil {
			return err
		}
	}
}

// speed measures jobs a second over the last second or more.
type speed struct {
	from, to time.Time
	at0, at1 int
	rate     float64
}

func (s *speed) at(now time.Time, done int) float64 {
	if s.from.IsZero() {
		s.from, s.at0 = now, done
	}
	s.to, s.at1 = now, done
	if window := s.to.Sub(s.from); window > 0 {
		s.rate = float64(s.at1-s.at0) / window.Seconds()
		if window >= time.Second {
			s.from, s.at0 = s.to, s.at1
		}
	}
	return s.rate
}
