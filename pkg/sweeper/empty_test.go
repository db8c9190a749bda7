package sweeper_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

func TestAPartitionIsEmptiedWhileJobsArriveInItAndLosesNone(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, sweeper.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	want := 0
	wg.Go(func() {
		for ctx.Err() == nil {
			want += len(c.enqueue(1))
		}
	})
	wg.Go(func() { // jobs that die and are retried by hand need their old log row anew
		for ctx.Err() == nil {
			c.reviveSome(t.Context())
		}
	})
	from, to := pgstore.Floor(pgstore.Day, c.now), c.midnight(0)
	leaf := pgstore.Partition{Parent: "jobs", Name: pgstore.PartitionName("jobs", pgstore.Day, c.now), From: from, To: to}
	emptied := 0
	for at := pgstore.FloorID(from); ctx.Err() == nil; {
		// Only what is new is carried: quicker than the arrivals, now and then. Ids rise, but for a moment's disorder.
		got, err := c.store.Carry(t.Context(), at, pgstore.FloorID(to), 1000)
		if err != nil && !pgstore.IsBusy(err) {
			t.Fatal(err)
		}
		if got.Seen > 0 {
			at = pgstore.FloorID(got.Last.Time().Add(-100 * time.Millisecond))
		}
		isEmpty, err := c.store.EmptyPartition(t.Context(), leaf)
		if err != nil && !pgstore.IsBusy(err) {
			t.Fatal(err)
		}
		if isEmpty {
			emptied++
		}
	}
	wg.Wait()
	w := c.worker(time.Hour)
	got := 0
	for {
		claimed, err := c.store.Claim(t.Context(), pgstore.ClaimRequest{
			Session: w, Queues: []pgstore.ClaimQueue{{Name: "q", Slots: 1000}}, Kinds: []string{"k"},
		})
		if err != nil || len(claimed.Missing) > 0 {
			t.Fatalf("%d jobs without payload, %v", len(claimed.Missing), err)
		}
		if len(claimed.Jobs) == 0 {
			break
		}
		got += len(claimed.Jobs)
	}
	t.Logf("%d jobs, emptied %d times", got, emptied)
	if got != want || emptied == 0 {
		t.Errorf("%d jobs, want %d; emptied %d times", got, want, emptied)
	}
}

func TestAPartitionKeepsWhatALiveJobNeedsUntilItWasCarriedOver(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, sweeper.Config{})
	id := c.enqueue(1)[0]
	from, to := pgstore.Floor(pgstore.Day, c.now), c.midnight(0)
	leaf := pgstore.Partition{Parent: "jobs", Name: pgstore.PartitionName("jobs", pgstore.Day, c.now), From: from, To: to}
	empty := func() bool {
		emptied, err := c.store.EmptyPartition(t.Context(), leaf)
		if err != nil {
			t.Fatal(err)
		}
		return emptied
	}
	if empty() {
		t.Error("emptied before the log row was copied")
	}
	if got, err := c.store.Carry(t.Context(), job.ID{}, pgstore.FloorID(to), 10); got.Done != 1 || got.Last != id || err != nil {
		t.Fatalf("carried %+v, %v", got, err)
	}
	if !empty() {
		t.Error("not emptied after the log row was copied")
	}
	tidy := func(want int) {
		t.Helper()
		if got, err := c.store.TidyKept(t.Context(), job.ID{}, 10); got.Done != want || got.Seen != 1 || err != nil {
			t.Errorf("tidied %+v, %v, want %d", got, err, want)
		}
	}
	tidy(0)
	if _, _, err := c.store.Cancel(t.Context(), []job.ID{id}, "for the test"); err != nil {
		t.Fatal(err)
	}
	tidy(0) // it may be revived at this very moment
	if gone, _, err := c.store.Delete(t.Context(), []job.ID{id}); len(gone) != 1 || err != nil {
		t.Fatal(gone, err)
	}
	c.exec(`INSERT INTO weir.jobs_kept SELECT $1, now(), NULL, NULL, NULL, NULL, 1, 5, 0, 'k', 'q', '{}'`, [16]byte(id))
	tidy(1) // a copy that crossed with the deletion
}

// reviveSome buries a few of the youngest jobs, which nobody has carried over yet, and revives them.
func (c *calendar) reviveSome(ctx context.Context) {
	rows, err := c.pool.Query(ctx, c.sql(`SELECT id FROM weir.live WHERE state = 0 ORDER BY id DESC LIMIT 5`))
	if err != nil {
		c.Error(err)
		return
	}
	defer rows.Close()
	var ids []job.ID
	for rows.Next() {
		var id [16]byte
		if err := rows.Scan(&id); err != nil {
			c.Error(err)
			return
		}
		ids = append(ids, id)
	}
	rows.Close()
	if _, _, err := c.store.Cancel(ctx, ids, "for the test"); err != nil {
		c.Error(err)
	}
	if _, err := c.store.Revive(ctx, ids); err != nil {
		c.Error(err)
	}
}
