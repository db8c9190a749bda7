package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/pgstore"
)

// askRates books a start in the rates of each chosen candidate that may have its locks, locks first and rates last: an
// instant that is booked for a job which then waits for a lock is lost to the others. Redis decides; without it, this
// process' share.
func (d *dispatcher) askRates(ctx context.Context, a *admission) {
	if !slices.ContainsFunc(a.chosen, func(c pgstore.Candidate) bool { return len(c.Rates) > 0 }) {
		return
	}
	var at []int
	granted := make(map[string]int)
	for i := range a.chosen {
		c := &a.chosen[i]
		if a.jobs[i].Refused != "" {
			continue
		}
		key := contested(c, granted)
		switch {
		case len(c.Rates) == 0: // nothing is lost if it is refused
		case key != "":
			a.jobs[i].Refused = key
		default:
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return
	}
	jobs := make([]coord.RateJob, len(at))
	for k, i := range at {
		jobs[k] = rateJob(&a.chosen[i], a.now)
	}
	a.booked = make([]bool, len(a.chosen))
	wait, err := d.reserve(ctx, jobs)
	if err != nil {
		d.w.trouble("redis", err)
	}
	alone := err != nil || wait == nil
	workers := 1
	if alone {
		workers = d.countWorkers(ctx)
	}
	for k, i := range at {
		if alone {
			a.jobs[i].Later = d.w.shares.take(a.chosen[i].Rates, workers, jobs[k].NotBefore, time.Now())
		} else {
			a.jobs[i].Later = wait[k]
		}
		a.booked[i] = alone && a.jobs[i].Later == 0
	}
}

// reserve asks Redis; nil without an error is no Redis.
func (d *dispatcher) reserve(ctx context.Context, jobs []coord.RateJob) ([]time.Duration, error) {
	if !d.w.bus.Enabled() {
		return nil, nil
	}
	wait, _, err := d.w.bus.Reserve(ctx, jobs, rateHorizon)
	return wait, err
}

// contested returns a lock of c that the others of this round fill already, and counts c in where there is none.
func contested(c *pgstore.Candidate, granted map[string]int) string {
	for i, k := range c.Keys {
		if !c.Reserved && granted[k] >= int(c.Limits[i]) {
			return k
		}
	}
	for _, k := range c.Keys {
		granted[k]++
	}
	return ""
}

// rateJob names a start in Redis by the claim that it would be: asked again, the same one gets what it was given; a retry
// is another.
func rateJob(c *pgstore.Candidate, now time.Time) coord.RateJob {
	j := coord.RateJob{Member: fmt.Sprintf("%s:%d", c.ID, c.Fence+1)}
	for _, k := range c.Rates {
		j.Rates = append(j.Rates, coord.RateKey{Name: k.Name(), N: k.N(), Per: k.Per(), Weight: k.Cost()})
	}
	if !c.Hold.IsZero() {
		j.NotBefore = max(c.Hold.Sub(now), 0)
	}
	return j
}

// unbook gives back what was booked for jobs that were blocked after all. In Redis a booking is the job's own, and moves with
// it when it comes again.
func (w *Worker) unbook(cs []*pgstore.Candidate) {
	for _, c := range cs {
		w.shares.giveBack(c.Rates)
	}
}

// remindWithin is how far ahead a dispatcher itself remembers what it has put off: the sweeper's next round may come later.
const remindWithin = time.Second

// remind arms timers of our own for jobs that were put off for a short while, and for all where nobody else announces them.
func (d *dispatcher) remind(a *admission, answer pgstore.Admission) {
	if len(answer.Throttled) == 0 {
		return
	}
	now, alone := time.Now(), !d.w.sweeperLives()
	for i := range a.chosen {
		wait := a.jobs[i].Later
		if wait > 0 && (alone || wait <= remindWithin) && len(d.reminders) < maxReminders {
			d.reminders = append(d.reminders, now.Add(wait+time.Millisecond))
		}
	}
	slices.SortFunc(d.reminders, time.Time.Compare)
}

// maxReminders bounds them; jobs beyond are found by the next claim's look ahead, or the poll.
const maxReminders = 10_000

// dropReminders forgets those of now and before: a claim follows.
func (d *dispatcher) dropReminders(now time.Time) {
	i := 0
	for ; i < len(d.reminders) && !d.reminders[i].After(now); i++ {
	}
	d.reminders = d.reminders[i:]
}

// countWorkers looks how many workers share the rates, every few seconds while Redis does not decide. Without an answer the
// last one stands, and one is alone.
func (d *dispatcher) countWorkers(ctx context.Context) int {
	if time.Since(d.countedAt) > countEvery {
		d.countedAt = time.Now()
		if n, err := d.w.claims.LiveWorkers(ctx); err != nil {
			d.w.trouble("count workers", err)
		} else {
			d.workers = n
			d.w.recovered("count workers")
		}
	}
	return max(d.workers, 1)
}

// countEvery is how often the workers are counted.
const countEvery = 3 * time.Second

// closeRates tells Redis of the rates that handlers have closed (job.RateBackoff); the rows are written.
func (w *Worker) closeRates(ctx context.Context, ds []*decision) {
	for _, d := range ds {
		name := d.v.failure.Hold
		if name == "" || !w.bus.Enabled() {
			continue
		}
		if err := w.bus.HoldRate(ctx, name, d.v.failure.Wait); err != nil {
			w.trouble("redis", err)
		}
	}
}
