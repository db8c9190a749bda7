package sweeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"
)

// How often the duties run that Config does not speak of.
const (
	unblockEvery    = 2 * time.Second
	reconcileEvery  = 2 * time.Second
	stragglersEvery = 5 * time.Second
	uniquesEvery    = 30 * time.Second
	reportsEvery    = time.Minute
	sessionsEvery   = time.Minute
	countsEvery     = 10 * time.Second
)

// retryEvery is how soon a duty that failed is tried again, unless it is a rarer one.
const retryEvery = time.Second

// duty is one step and when it is done.
type duty struct {
	name  string
	every time.Duration
	pace  time.Duration // the next run comes no sooner than pace times what a look takes; zero: no matter
	eager bool          // a run that found something was no look alone: the next comes as if it had taken no time
	step  func(context.Context) (int, error)

	first func() (time.Time, bool) // the next alarm; nil: none
	ring  func(context.Context)    // what is to be done then

	last time.Duration // what the last look took, for the loop alone

	turn sync.Mutex // held while step runs: RunDuty and Run at once take turns

	mu      sync.Mutex
	stats   DutyStats
	failing bool
}

// runOnce does the step once.
func (d *duty) runOnce(ctx context.Context) (n int, err error) {
	d.turn.Lock()
	defer d.turn.Unlock()
	began := time.Now()
	defer func() {
		// A bug in one duty must not take the others with it, or the process of a worker.
		if p := recover(); p != nil {
			err = fmt.Errorf("duty %s panicked: %v\n%s", d.name, p, debug.Stack())
		}
		d.note(n, err, began, time.Now())
	}()
	return d.step(ctx)
}

func (d *duty) note(n int, err error, began, ended time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Runs++
	d.stats.Rows += uint64(max(n, 0))
	d.stats.Took = ended.Sub(began)
	if err != nil {
		d.stats.Errors++
		return
	}
	d.stats.LastOK = ended
}

func (d *duty) read() DutyStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := d.stats
	st.Name, st.Every = d.name, d.every
	return st
}

// wait returns how long to wait after a run that took so long and found n: a tenth more or less, so that sweepers that started
// together do not stay in step. A look is as dear as the quicker of the last two: one alone is slow because the machine or Redis stood
// still for a moment, and a second of that would keep jobs without a hint waiting for twenty.
func (d *duty) wait(took time.Duration, n int, failed bool) time.Duration {
	if n > 0 && d.eager {
		took = 0
	}
	every := max(d.every, min(took, d.last)*d.pace)
	d.last = took
	if failed {
		every = max(every, retryEvery)
	}
	return every - every/10 + rand.N(every/5+1)
}

// loop runs the duty until ctx ends. Statements get work, which ends later: one that is cut off costs a connection,
// and what it did would not be told.
func (s *Sweeper) loop(ctx, work context.Context, d *duty) {
	// At once for a person who waits, yet spread out: a dozen sweepers may start together.
	next := time.Now().Add(rand.N(min(d.every, time.Second)))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		until, isAlarm := next, false
		if d.first != nil {
			if at, ok := d.first(); ok && at.Before(next) {
				until, isAlarm = at, true
			}
		}
		timer.Reset(time.Until(until))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if isAlarm {
			d.ring(work)
			continue
		}
		began := time.Now()
		n, err := d.runOnce(work)
		if ctx.Err() != nil {
			return
		}
		s.report(d, err)
		next = time.Now().Add(d.wait(time.Since(began), n, err != nil))
	}
}

// report logs when trouble starts and when it ends.
func (s *Sweeper) report(d *duty, err error) {
	d.mu.Lock()
	was := d.failing
	d.failing = err != nil
	d.mu.Unlock()
	switch {
	case err != nil && !was && !errors.Is(err, context.Canceled):
		s.log.Error("duty fails; it is tried again", "duty", d.name, "err", err)
	case err == nil && was:
		s.log.Info("duty works again", "duty", d.name)
	}
}
