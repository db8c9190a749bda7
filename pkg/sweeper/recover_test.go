package sweeper_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

func TestJobsOfADeadProcessStartElsewhereWithTheirAttemptBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	ids := s.enqueue(230) // more than two batches
	w := s.worker(time.Minute)
	s.claim(w, 230)
	var events []sweeper.Event
	sw := s.sweeper(sweeper.Config{OnEvent: func(e sweeper.Event) {
		events = append(events, e)
		panic("a bug of the user's")
	}})
	if n := s.duty(sw, "recover"); n != 0 {
		t.Errorf("%d jobs of a live process were recovered", n)
	}
	s.die(w)
	if n := s.duty(sw, "recover"); n != 230 || len(events) != 230 {
		t.Fatalf("recovered %d, events %d, want 230", n, len(events))
	}
	for _, e := range events {
		if e.What != job.Recover || e.State != job.Available || e.Session != w || e.Crashes != 1 || e.Attempt != 0 || e.Due.IsZero() {
			t.Fatalf("event %+v", e)
		}
	}
	r := s.row(ids[0])
	if r.State != job.Available || r.Attempt != 0 || r.Crashes != 1 || len(r.Attempts) != 1 || r.Attempts[0].Outcome != "crashed" {
		t.Errorf("row %+v", r)
	}
	if again := s.claim(s.worker(time.Minute), 1000); len(again) != 230 || again[0].Attempt != 1 {
		t.Errorf("claimed again: %d", len(again))
	}
}

// rescan: the rounds after the mark ask for all dead sessions, and so does another sweeper that has not marked it.
func TestAClaimThatCommitsAfterItsProcessWasGivenUpIsRecovered(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	id := s.enqueue(1)[0]
	w := s.worker(time.Minute)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	claim := pgstore.ClaimRequest{Session: w, Queues: []pgstore.ClaimQueue{{Name: "q", Slots: 1}}, Kinds: []string{"k"}}
	if got, err := s.store.On(tx).Claim(t.Context(), claim); err != nil || len(got.Jobs) != 1 {
		t.Fatalf("claimed %+v, %v", got.Jobs, err)
	}
	s.die(w)
	for range 2 {
		if n := s.duty(s.sweeper(sweeper.Config{}), "recover"); n != 0 {
			t.Errorf("recovered %d before the claim was committed", n)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.duty(s.sweeper(sweeper.Config{}), "recover"); n != 1 || s.row(id).State != job.Available {
		t.Errorf("recovered %d after it, the job is %s", n, s.row(id).State)
	}
}

func TestRunningJobsWhoseSessionHasNoRowAreRecovered(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.enqueue(20)
	w := s.worker(time.Minute)
	s.claim(w, 20)
	s.exec(`DELETE FROM weir.sessions`)
	s.exec(`UPDATE weir.live SET claimed_at = NULL WHERE id IN (SELECT id FROM weir.live LIMIT 3)`) // somebody's hand
	if n := s.duty(s.sweeper(sweeper.Config{}), "recover"); n != 20 {
		t.Errorf("recovered %d, want 20", n)
	}
}

func TestAPillIsDiscardedWithTheThirdProcessThatDies(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	pill := s.enqueue(1)[0]
	sw := s.sweeper(sweeper.Config{})
	crash := func() job.Row {
		w := s.worker(time.Minute)
		if rows := s.claim(w, 1); len(rows) != 1 {
			t.Fatalf("claimed %d", len(rows))
		}
		s.die(w)
		if n := s.duty(sw, "recover"); n != 1 {
			t.Fatalf("recovered %d", n)
		}
		return s.row(pill)
	}
	if r := crash(); r.State != job.Available || r.Crashes != 1 {
		t.Fatalf("first crash: %+v", r)
	}
	r := crash()
	if wait := r.ReadyAt.Sub(r.Attempts[1].EndedAt); r.Crashes != 2 || wait < 14*time.Second || wait > 16*time.Second {
		t.Fatalf("second crash: waits %v: %+v", wait, r)
	}
	s.exec(`UPDATE weir.live SET ready_at = clock_timestamp()`)
	r = crash()
	if r.State != job.Discarded || r.Error != "its process died 3 times" || r.Attempt != 0 || len(r.Attempts) != 3 {
		t.Errorf("third crash: %+v", r)
	}
}

func TestAJobAskedToCancelEndsAsCancelledWhenItsProcessDies(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	id := s.enqueue(1)[0]
	w := s.worker(time.Minute)
	s.claim(w, 1)
	if _, _, err := s.store.Cancel(t.Context(), []job.ID{id}, "enough"); err != nil {
		t.Fatal(err)
	}
	s.die(w)
	s.duty(s.sweeper(sweeper.Config{}), "recover")
	if r := s.row(id); r.State != job.Cancelled {
		t.Errorf("got %s", r.State)
	}
}

func TestAPageOfRowsToLeaveAloneHidesNoneBehindIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.enqueue(160)
	alive, dead := s.worker(time.Hour), s.worker(time.Minute)
	kept := s.claim(alive, 150)
	s.claim(dead, 10)
	s.die(dead)
	if n := s.duty(s.sweeper(sweeper.Config{}), "recover"); n != 10 {
		t.Errorf("recovered %d in one round, want 10", n)
	}
	if n := s.finish(alive, kept); n != 150 {
		t.Errorf("%d of the healthy process' jobs are still its own, want 150", n)
	}
}

func TestASweeperThatWatchesMarksTheDeadAfterALeaseAndNobodyElse(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.enqueue(5)
	alive, dead := s.worker(time.Minute), s.worker(time.Millisecond)
	s.claim(alive, 2)
	s.claim(dead, 3)
	var mu sync.Mutex
	var got []job.ID
	started := time.Now()
	sw := s.sweeper(sweeper.Config{Lease: 3 * time.Second, Recover: 100 * time.Millisecond, OnEvent: func(e sweeper.Event) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, e.Session)
	}})
	s.exec(`UPDATE weir.sessions SET lease_ms = 3000`) // else the longest lease is waited for
	if n := s.duty(sw, "recover"); n != 0 {
		t.Errorf("%d recovered without a watch", n)
	}
	s.run(sw)
	testenv.Eventually(t, 10*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) == 3
	}, "3 jobs are not recovered")
	if took := time.Since(started); took < 3*time.Second {
		t.Errorf("marked dead after %v, before one full lease", took)
	}
	if slices.Contains(got, alive) {
		t.Error("a healthy process was called dead")
	}
	if st := sw.Stats(); !st.Trusted || st.Session.IsZero() || st.Duties[0].Runs == 0 || st.Duties[0].LastOK.IsZero() {
		t.Errorf("stats: %+v", st)
	}
	// A worker sees through its renewal that a sweeper lives, and knows at once when it has gone.
	if n := s.count(`SELECT count(*) FROM weir.sessions WHERE role = 'sweeper' AND dead_at IS NULL`); n != 1 {
		t.Errorf("%d sweeper sessions, want 1", n)
	}
}

func TestAMarkOfAPastMomentIsNotMade(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.worker(time.Millisecond)
	testenv.Eventually(t, 10*time.Second, func() bool {
		return s.count(`SELECT count(*) FROM weir.sessions WHERE lease_until < clock_timestamp()`) == 1
	}, "the lease does not end")
	now, err := s.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if dead, err := s.store.MarkDeadBy(t.Context(), job.ID{}, now); len(dead) != 0 || err != nil {
		t.Errorf("after its time: marked %v, %v", dead, err)
	}
	if dead, err := s.store.MarkDeadBy(t.Context(), job.ID{}, now.Add(time.Minute)); len(dead) != 1 || err != nil {
		t.Errorf("in time: marked %v, %v", dead, err)
	}
}
