package pgstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// The rules of a dispatcher's scan position, as package worker has them: each claim starts where the last has looked
// up to, or 250 ms ago if that is earlier.
const (
	overlap       = 250 * time.Millisecond
	positionTries = 60
	claimSlack    = 2 * time.Millisecond // of a claim's time, on a machine that does other things as well
)

// claimTime returns the median time of claims that start at the scan position of a dispatcher which has seen all until
// now, and the time of the first, which starts from nothing. Each finds the one job that was enqueued for it.
func (b *bench) claimTime(session job.ID) (median, first time.Duration) {
	b.t.Helper()
	var times []time.Duration
	var seen time.Time
	for range positionTries {
		id := b.enqueue(1)[0]
		req := request(session, 10)
		if !seen.IsZero() {
			for p := range req.Queues[0].Starts {
				req.Queues[0].Starts[p].ReadyAt = seen.Add(-overlap)
			}
		}
		begun := time.Now()
		got, err := b.store.Claim(b.ctx, req)
		took := time.Since(begun)
		if err != nil || len(got.Jobs) != 1 || got.Jobs[0].ID != id {
			b.t.Fatalf("claim: %d jobs, %v", len(got.Jobs), err)
		}
		if seen.IsZero() {
			first = took // must look at everything: what a claim without a position would cost
		} else {
			times = append(times, took)
		}
		seen = got.Now
		if _, err := b.store.Finish(b.ctx, session, completionsOf(got.Jobs...)); err != nil {
			b.t.Fatalf("%v", err)
		}
	}
	slices.Sort(times)
	return times[len(times)/2], first
}

// within compares a claim's time with that on empty tables.
func within(t *testing.T, what string, b *bench, s job.ID, empty time.Duration) {
	t.Helper()
	got, first := b.claimTime(s)
	t.Logf("%s: %s a claim, the first pass %s; on empty tables %s", what, got, first, empty)
	if got > 3*empty+claimSlack {
		t.Errorf("%s: a claim takes %s, on empty tables %s", what, got, empty)
	}
}

func TestScheduledJobsAtABetterPriorityCostAClaimNothing(t *testing.T) {
	b := open(t)
	s := b.session()
	empty, _ := b.claimTime(s)
	b.loadLive(*planJobs*2/3, "q", "k", 1, "clock_timestamp() + interval '1 h'")
	within(t, "scheduled jobs at priority 1", b, s, empty)
}

func TestDueJobsOfForeignKindsCostAClaimNothingAfterOnePass(t *testing.T) {
	b := open(t)
	s := b.session()
	empty, _ := b.claimTime(s)
	b.loadLive(*planJobs/3, "q", "foreign", 5, "clock_timestamp() - interval '1 min'")
	within(t, "foreign jobs before the position", b, s, empty)
}

func TestASnapshotHeldElsewhereCostsAClaimNothing(t *testing.T) {
	b := open(t)
	s := b.session()
	empty, _ := b.claimTime(s)
	tx, err := b.pool.BeginTx(b.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	if _, err := tx.Exec(b.ctx, "SELECT 1"); err != nil { // takes the snapshot
		t.Fatal(err)
	}
	finished := 0
	var seen time.Time
	for finished < *planJobs/3 {
		b.enqueue(1000)
		req := request(s, 1000)
		for p := range req.Queues[0].Starts {
			req.Queues[0].Starts[p] = pgstore.Position{ReadyAt: seen}
		}
		got, err := b.store.Claim(b.ctx, req)
		if err != nil || len(got.Jobs) != 1000 {
			t.Fatalf("claim: %d jobs, %v", len(got.Jobs), err)
		}
		seen = got.Now.Add(-overlap)
		if done, err := b.store.Finish(b.ctx, s, completionsOf(got.Jobs...)); err != nil || len(done) != 1000 {
			t.Fatalf("finish: %d jobs, %v", len(done), err)
		}
		finished += 1000
	}
	within(t, "behind a held snapshot", b, s, empty)
}
