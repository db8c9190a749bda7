package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirq/weir/internal/demojobs"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// figures are what came of a demo. Those with a name in JSON are the line of --json.
type figures struct {
	Enqueued         int     `json:"enqueued"`  // checksum jobs; the probes are not among them
	Completed        int     `json:"completed"` // of those
	Recovered        int     `json:"recovered"` // taken from the killed worker
	Lost             int     `json:"lost"`      // stored jobs and probes of which nothing has come
	RunTwice         int     `json:"run_twice"` // jobs whose handler was started more than once
	JobsPerS         float64 `json:"jobs_per_s"`
	PickupP50        float64 `json:"pickup_p50_ms"`
	PickupP99        float64 `json:"pickup_p99_ms"`
	StatementsPerJob float64 `json:"statements_per_job"`
	WALBytesPerJob   float64 `json:"wal_bytes_per_job"`

	failed  int   // ended otherwise than completed: their file has gone or cannot be read any more
	refused int64 // results that came too late
	probes  int
}

// count asks the database what came of every job that was stored.
func (d *demo) count(ctx context.Context, last standing, took time.Duration) (*figures, error) {
	f := &figures{Enqueued: len(d.jobs), JobsPerS: round(float64(last.ended())/took.Seconds(), 1)}
	if err := d.awaitProbes(ctx); err != nil {
		return nil, err
	}
	// Those that nobody has started, or of whose start nobody told.
	missing := d.ledger.which(func(e *entry) bool { return e.end == "" })
	if err := d.account.ends(ctx, missing, d.ledger.end); err != nil {
		return nil, err
	}
	f.Completed, f.failed = d.ledger.ended()
	f.Lost = len(d.ledger.which(func(e *entry) bool { return e.end == "" }))
	f.RunTwice = len(d.ledger.which(func(e *entry) bool { return e.isJob && e.starts > 1 }))
	f.probes = len(d.ledger.which(func(e *entry) bool { return !e.isJob }))
	recovered, err := d.account.crashed(ctx, d.ledger.which(func(e *entry) bool { return e.isJob && e.isRecovered }))
	if err != nil {
		return nil, err
	}
	f.Recovered = recovered
	pickups := d.ledger.pickups()
	slices.Sort(pickups)
	f.PickupP50, f.PickupP99 = percentile(pickups, 50), percentile(pickups, 99)
	return f, d.cost(ctx, f)
}

// awaitProbes waits until the probes have ended, at most until one that the killed worker had must have run elsewhere.
func (d *demo) awaitProbes(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, 3*demoLease)
	defer cancel()
	err := until(limit, 20*time.Millisecond, func() (bool, error) {
		left := d.ledger.which(func(e *entry) bool { return !e.isJob && e.end == "" })
		return len(left) == 0, d.account.ends(limit, left, d.ledger.end)
	})
	if err != nil && ctx.Err() == nil && limit.Err() != nil {
		return nil // count says what is missing
	}
	return err
}

// cost counts statements and WAL. Both are for all jobs, with the probes, and with what the processes send beside them:
// renewals, polls, the sweeper's duties.
func (d *demo) cost(ctx context.Context, f *figures) error {
	wal, err := d.account.wal(ctx)
	if err != nil {
		return err
	}
	asked := time.Now().UnixNano()
	err = until(ctx, 20*time.Millisecond, func() (bool, error) { // until the living have reported once more
		return d.sweeper.tickedAt.Load() > asked && d.workers[1-d.victim].tickedAt.Load() > asked, d.childrenLive()
	})
	if err != nil {
		return err
	}
	sent := d.sent.n.Load()
	for _, c := range []*child{d.sweeper, d.workers[0], d.workers[1]} {
		sent += c.statements.Load()
		f.refused += c.refused.Load()
	}
	jobs := float64(f.Enqueued + f.probes)
	f.StatementsPerJob = round(float64(sent)/jobs, 2)
	f.WALBytesPerJob = round((wal-d.walAt)/jobs, 0)
	return nil
}

// verdict is nil if the demo showed what it promises.
func (f *figures) verdict() error {
	var errs []error
	if f.Lost > 0 {
		errs = append(errs, fmt.Errorf("%d jobs were lost or have not ended", f.Lost))
	}
	if f.Recovered == 0 {
		errs = append(errs, errors.New("no job of the killed worker was recovered"))
	}
	return errors.Join(errs...)
}

// summarise tells a person.
func (d *demo) summarise(ctx context.Context, f *figures) error {
	s := d.screen
	s.say("")
	s.say("  enqueued  %9s", number(int64(f.Enqueued)))
	s.say("  completed %9s", number(int64(f.Completed)))
	if f.failed > 0 {
		s.say("  failed    %9s   their file has gone or cannot be read any more", number(int64(f.failed)))
	}
	s.say("  lost      %9s", number(int64(f.Lost)))
	s.say("  recovered %9s   run twice: %s, second results refused: %d", number(int64(f.Recovered)), number(int64(f.RunTwice)), f.refused)
	s.say("  pickup      %.1f ms p50, %.1f ms p99   from the call of Enqueue to the handler", f.PickupP50, f.PickupP99)
	s.say("              of %s echo jobs, sent one by one for slots kept free", number(int64(f.probes)))
	s.say("  database    %.1f statements and %.1f KB of WAL a job", f.StatementsPerJob, f.WALBytesPerJob/1000)
	s.say("              counted by the processes; WAL of the whole server, probes included")
	if f.verdict() != nil {
		return nil // the error says what is wrong
	}
	if err := d.tellLargest(ctx); err != nil {
		return err
	}
	if !d.flags.keep {
		s.say("")
		s.say("  next   %s demo --keep     stays up: look around with weir jobs list", ownName())
		s.say("         %s dev             servers and a worker for your own code", ownName())
		s.say("         %s bench           the engine alone, no file reading", ownName())
	}
	return nil
}

// tellLargest reads results back as any producer would.
func (d *demo) tellLargest(ctx context.Context) error {
	d.screen.say("")
	d.screen.say("  largest files, from the stored results")
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, i := range d.input.largest(3) {
		sum, err := client.Await[demojobs.Sum](ctx, d.client, d.jobs[i])
		var failed *job.FailedError
		switch {
		case errors.As(err, &failed):
			d.screen.say("    %8s  %11s         %7s   %s", "failed", "", "", d.input.files[d.input.jobs[i]].name)
		case err != nil:
			return err
		default:
			d.screen.say("    %8s  %11s lines   %.6s…   %s", byteSize(sum.Bytes), number(sum.Lines), sum.SHA256, sum.Path)
		}
	}
	return nil
}

// percentile returns the p-th percentile of sorted durations in milliseconds; 0 of none.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100 // the nearest rank, from 1
	return round(inMillis(sorted[max(rank, 1)-1]), 2)
}

func round(v float64, digits int) float64 {
	unit := math.Pow(10, float64(digits))
	return math.Round(v*unit) / unit
}
