package pgstore_test

import (
	"testing"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// claimAlone claims up to n jobs, and those with keys that are alone with their lock at once, in so many kept slots.
func (b *bench) claimAlone(session job.ID, n, kept int) pgstore.Claimed {
	b.t.Helper()
	req := request(session, n)
	req.Queues[0].Alone = kept
	got, err := b.store.Claim(b.ctx, req)
	b.must(err)
	return got
}

func TestAJobThatIsAloneWithItsLockRunsWithoutAdmission(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	mutex, limit, pair := b.keyed("a"), b.keyedLimits([]int32{3}, "b"), []job.ID{b.keyed("c"), b.keyed("c")}
	plain := b.enqueue(1)[0]
	got := b.claimAlone(s, 10, 10)
	if len(got.Jobs) != 3 || !ran(got.Jobs, mutex) || !ran(got.Jobs, limit) || !ran(got.Jobs, plain) {
		t.Fatalf("running: %+v", got.Jobs)
	}
	if len(got.Candidates) != 2 || got.Candidates[0].ID != pair[0] || got.Candidates[1].ID != pair[1] {
		t.Errorf("left to admit: %+v", got.Candidates)
	}
	for _, r := range got.Jobs {
		want := map[job.ID][]job.Key{mutex: {job.Mutex("a")}, limit: {job.Limit("b", 3)}}[r.ID]
		if len(r.Keys) != len(want) || len(want) == 1 && r.Keys[0] != want[0] {
			t.Errorf("%v has keys %v, want %v", r.ID, r.Keys, want)
		}
	}
	for _, key := range []string{"a", "b"} {
		if len(b.locks(key)) != 1 {
			t.Errorf("locks of %s: %v", key, b.locks(key))
		}
	}
	b.lockedOnce(t)
	waiter := b.keyed("a")
	if got := b.claimAlone(s, 10, 10); len(got.Jobs) != 0 || len(got.Candidates) != 3 {
		t.Errorf("beside a holder: %+v", got)
	}
	b.admit(s, waiter)
	if done := b.finishKeyed(s, 1, got.Jobs...); len(done.Accepted) != 3 || !ran(done.Handed, waiter) {
		t.Errorf("finish: %+v", done)
	}
	b.lockedOnce(t)
}

// TestOfTwoThatAreAloneWithOneLockTheFirstToWriteItRuns: the second has looked before the first was there.
func TestOfTwoThatAreAloneWithOneLockTheFirstToWriteItRuns(t *testing.T) {
	t.Parallel()
	b := open(t)
	s, id := b.session(), b.keyed("a")
	tx, err := b.pool.Begin(b.ctx)
	b.must(err)
	_, err = tx.Exec(b.ctx, b.text("INSERT INTO weir.locks (key, slot, job_id, fence) VALUES ('a', 0, $1, 1)"), b.ids.New().UUID())
	b.must(err)
	answer := make(chan pgstore.Claimed, 1)
	go func() { answer <- b.claimAlone(s, 10, 10) }()
	b.waitFor(func() bool { return b.waiters() > 0 })
	b.must(tx.Commit(b.ctx))
	if got := <-answer; len(got.Jobs) != 0 || len(got.Candidates) != 1 || got.Candidates[0].ID != id {
		t.Errorf("%+v", got)
	}
}

func olderIsNotSeen(b *bench) (wrong string) {
	older, newer := b.keyed("a"), b.keyed("a")
	b.whileLocked(older, func() {
		if got := b.claimAlone(b.session(), 10, 10); ran(got.Jobs, newer) {
			wrong = "a newer job has passed an older one that another has locked"
		}
	})
	return wrong
}

func waiterIsNotSeen(b *bench) string {
	s := b.session()
	b.admitted(s, b.keyed("a"))
	b.admit(s, b.keyed("a"))
	b.exec("DELETE FROM weir.locks") // freed a moment ago, and not passed on
	newer := b.keyed("a")
	if got := b.claimAlone(s, 10, 10); ran(got.Jobs, newer) {
		return "a newer job took a free lock before the one that waits for it"
	}
	return ""
}

func waiterForSeveralIsNotSeen(b *bench) string {
	s := b.session()
	b.admitted(s, b.keyed("b"))
	b.admit(s, b.keyed("b", "c")) // its line is that of b: of c it has a place in waits
	newer := b.keyed("c")
	if got := b.claimAlone(s, 10, 10); ran(got.Jobs, newer) {
		return "a newer job took a lock before one that waits for it and another"
	}
	return ""
}

func severalAreNotSeen(b *bench) string {
	b.keyed("a", "b")
	newer := b.keyed("b")
	if got := b.claimAlone(b.session(), 10, 10); ran(got.Jobs, newer) {
		return "a newer job took a lock before one of the same claim that wants it and another"
	}
	return ""
}

func higherSlotIsNotSeen(b *bench) string {
	s := b.session()
	b.twoThenOne(s)
	b.exec("DELETE FROM weir.limits")
	id := b.keyed("a")
	if got := b.claimAlone(s, 10, 10); ran(got.Jobs, id) {
		return "a job runs beside a holder in a slot above its limit"
	}
	return ""
}

func entryIsNotSeen(b *bench) string {
	b.limit("a", 0)
	id := b.keyed("a")
	if got := b.claimAlone(b.session(), 10, 10); ran(got.Jobs, id) {
		return "a job runs though an entry allows none"
	}
	return ""
}

// changedSince is what alone must see itself, since its rows were read without locks: what has changed after the claim looked.
func changedSince(set string) func(b *bench) string {
	return func(b *bench) string {
		id := b.keyed("a")
		b.exec("UPDATE weir.live SET "+set+" WHERE id = $1", id.UUID())
		if b.row("SELECT coalesce(cardinality(weir.alone_v1(ARRAY[$1]::uuid[], ARRAY[$1]::uuid[])), 0)", id.UUID()) != "0" {
			return "a job runs of which now " + set
		}
		return ""
	}
}

func slotsAreNotKept(b *bench) string {
	b.enqueue(2)
	first := b.keyed("a")
	b.keyed("b")
	b.keyed("c")
	if got := b.claimAlone(b.session(), 10, 3); len(got.Jobs) != 3 || !ran(got.Jobs, first) || len(got.Candidates) != 2 {
		return "jobs with keys were claimed ahead, or not as many as there are slots"
	}
	return ""
}
