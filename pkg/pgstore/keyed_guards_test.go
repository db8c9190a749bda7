package pgstore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// The rest of the checks of keyedMutations.

// freed makes one job wait for key "a", which is free and was not passed on.
func (b *bench) freed(s job.ID) (waiter job.ID) {
	b.t.Helper()
	r := b.admitted(s, b.keyed("a"))
	waiter = b.keyed("a")
	b.admit(s, waiter)
	b.exec("DELETE FROM weir.locks WHERE job_id = $1", r.ID.UUID())
	return waiter
}

// passDoesNotWait: whoever has the first in line may leave it as it is.
func passDoesNotWait(b *bench) string {
	s := b.session()
	waiter := b.freed(s)
	var got pgstore.Passed
	done := make(chan struct{})
	b.whileLocked(waiter, func() {
		go func() {
			defer close(done)
			got = b.pass(s, "a", 1)
		}()
		b.waitFor(func() bool { return isClosed(done) || b.waiters() > 0 })
	})
	<-done
	if !ran(got.Jobs, waiter) {
		return "a key was not passed on because somebody looked at the first in line"
	}
	return ""
}

func isClosed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// waiters returns how many connections to this schema wait for a lock.
func (b *bench) waiters() int {
	return len(b.rows("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()", b.schema))
}

func (b *bench) waitFor(is func() bool) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("it did not come")
		}
	}
}

// passStopsEarly: a slot that another takes at this moment is no reason to stop, another may be free.
func passStopsEarly(b *bench) string {
	s := b.session()
	b.limit("a", 0)
	for range 21 {
		b.admit(s, b.keyed("a"))
	}
	b.limit("a", 21)
	for b.pass(s, "a", 0).Again {
	}
	if n := len(b.locks("a")); n != 21 {
		return "a free slot was not passed on"
	}
	return ""
}

func secondIsHanded(b *bench) (wrong string) {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	first, second := b.keyed("a"), b.keyed("a")
	b.admit(s, first, second)
	b.whileLocked(first, func() {
		if got := b.finishKeyed(s, 1, r); len(got.Handed) > 0 || !slices.Equal(got.Freed, []string{"a"}) {
			wrong = "the second in line was handed the lock"
		}
	})
	return wrong
}

func handoverPassesWaiter(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("b"))
	b.admit(s, b.keyed("a", "b"))
	b.admit(s, b.keyed("b"))
	if got := b.finishKeyed(s, 1, r); len(got.Handed) > 0 {
		return "a newer job was handed a lock that one of several locks waits for"
	}
	return ""
}

func TestTwoFreedLocksGoToTwoWaiters(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	b.limit("a", 2)
	rows := b.admit(s, b.keyed("a"), b.keyed("a")).Jobs
	first, second := b.keyed("a"), b.keyed("a")
	b.admit(s, first, second)
	got := b.finishKeyed(s, 2, rows...)
	if !ran(got.Handed, first) || !ran(got.Handed, second) {
		t.Errorf("two freed locks went to %+v", got.Handed)
	}
}

func cancelTellsNobody(b *bench) string {
	s := b.session()
	b.admitted(s, b.keyed("b"))
	both := b.keyed("a", "b")
	b.admit(s, both)
	_, freed, err := b.store.Cancel(b.ctx, []job.ID{both}, "enough")
	b.must(err)
	if !slices.Equal(freed, []string{"a", "b"}) {
		return "nobody was told of the lines that a cancelled job has left"
	}
	return ""
}

func releasedMayStillRun(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	_, freed, err := b.store.Release(b.ctx, s, heldOf(r), time.Hour, time.Minute)
	b.must(err)
	id := b.keyed("a")
	if got := b.admit(s, id); len(freed) > 0 || ran(got.Jobs, id) {
		return "a lock was given away whose handler may still run"
	}
	return ""
}

func recoverLosesPlace(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	b.crash(s)
	b.recover()
	if got := b.admit(b.session(), r.ID); !ran(got.Jobs, r.ID) {
		return "a recovered job has lost its lock"
	}
	return ""
}

func halfAReservation(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a", "b"))
	_, _, err := b.store.Release(b.ctx, s, heldOf(r), time.Hour, time.Minute)
	b.must(err)
	b.exec("UPDATE weir.locks SET until = clock_timestamp() - interval '1 s' WHERE key = 'a'")
	got, err := b.store.Tidy(b.ctx, "", 100)
	b.must(err)
	if !slices.Equal(got.Keys, []string{"a", "b"}) || got.Repairs[pgstore.RepairReservation] != 1 || len(b.locks("b")) != 0 {
		return "part of a reservation that has run out was kept"
	}
	return ""
}

func orphansTakeHeld(b *bench) string {
	s := b.session()
	b.admitted(s, b.keyed("a"))
	b.reserved(s, "b")
	got, err := b.store.Tidy(b.ctx, "", 100)
	b.must(err)
	if len(b.locks("a"))+len(b.locks("b")) != 2 || len(got.Repairs) != 0 {
		return "a lock row was taken from its claim"
	}
	return ""
}

// waitsForFinishTx: an open FinishTx is deleting its lock row; whoever wants the lock is blocked, not kept waiting.
func waitsForFinishTx(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	waiter := b.keyed("a")
	tx, err := b.pool.Begin(b.ctx)
	b.must(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(b.ctx)) }()
	b.must(b.store.On(tx).FinishTx(b.ctx, s, heldOf(r)[0], nil))
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	got, err := b.store.Admit(ctx, s, []pgstore.AdmitJob{{ID: waiter}}, serves(0))
	if err != nil {
		return err.Error()
	}
	b.must(tx.Commit(b.ctx))
	if p := b.pass(s, "a", 1); len(got.Blocked) != 1 || !ran(p.Jobs, waiter) {
		return "the lock of a FinishTx was not passed on"
	}
	return ""
}

func holdsWhileItWaits(b *bench) string {
	s := b.session()
	b.admitted(s, b.keyed("b"))
	b.admit(s, b.keyed("a", "b"))
	if len(b.locks("a")) > 0 {
		return "a job that waits for one lock holds another"
	}
	return ""
}

func handoverPassesPriority(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	waiter := b.keyed("a")
	b.exec("UPDATE weir.live SET priority = 9 WHERE id = $1", waiter.UUID())
	b.admit(s, waiter)
	b.enqueue(1, func(j *pgstore.NewJob) { j.Priority = 1 })
	if got := b.finishKeyed(s, 1, r); len(got.Handed) > 0 || len(got.Reserved) != 1 {
		return "a slot was handed over although a better priority is due"
	}
	return ""
}

func handoverPassesRate(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	waiter := b.keyed("a")
	b.admit(s, waiter)
	b.exec("UPDATE weir.live SET rates = '{1/1000/1 r}' WHERE id = $1", waiter.UUID())
	if got := b.finishKeyed(s, 1, r); len(got.Handed) > 0 || len(got.Reserved) != 1 {
		return "a job with a rate was handed over"
	}
	return ""
}

func handoverPassesMode(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	waiter := b.keyed("a")
	b.admit(s, waiter)
	b.exec("UPDATE weir.live SET mode = 1 WHERE id = $1", waiter.UUID())
	if got := b.finishKeyed(s, 1, r); len(got.Handed) > 0 || len(got.Reserved) != 1 {
		return "a job was handed over to one that may not accept its mode"
	}
	return ""
}

func handoverPassesQueueLimit(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	b.admit(s, b.keyed("a"))
	b.exec("INSERT INTO weir.queues (name, slots) VALUES ('q', 1)")
	if got := b.finishKeyed(s, 1, r); len(got.Handed) > 0 || len(got.Reserved) != 1 {
		return "a job was handed over into a queue with a limit"
	}
	return ""
}

func queueLimitForgotten(b *bench) string {
	s := b.session()
	b.exec("INSERT INTO weir.queues (name, slots) VALUES ('q', 2)")
	b.enqueue(5)
	first, err := b.store.Claim(b.ctx, request(s, 5))
	b.must(err)
	again, err := b.store.Claim(b.ctx, request(s, 5))
	b.must(err)
	if len(first.Jobs) != 2 || len(again.Jobs) != 0 || !first.Limited || !again.Limited {
		return "more jobs of a queue were started than its limit"
	}
	id := b.keyed("a")
	if got := b.admit(s, id); ran(got.Jobs, id) || len(got.Left) != 1 {
		return "a job with keys was admitted above its queue's limit"
	}
	return ""
}

func throttledKeepsLocks(b *bench) string {
	s := b.session()
	id := b.reserved(s, "a")
	got, err := b.store.Admit(b.ctx, s, []pgstore.AdmitJob{{ID: id, Later: time.Minute}}, serves(0))
	b.must(err)
	if !slices.Equal(got.Throttled, []job.ID{id}) || !slices.Equal(got.Recheck, []string{"a"}) || len(b.locks("a")) != 0 {
		return "a job that waits for a rate keeps a lock"
	}
	return ""
}

func throttledStartsEarly(b *bench) string {
	s := b.session()
	id := b.keyed("a")
	_, err := b.store.Admit(b.ctx, s, []pgstore.AdmitJob{{ID: id, Later: time.Minute}}, serves(0))
	b.must(err)
	if got := b.admit(s, id); len(got.Jobs) > 0 {
		return "a job that another process put off was started"
	}
	return ""
}

func pausedHoldsLine(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	paused, other := b.keyed("a"), b.keyed("a")
	b.admit(s, paused, other)
	b.other(paused)
	b.exec("INSERT INTO weir.queues (name, paused_at) VALUES ('other', clock_timestamp()) ON CONFLICT DO NOTHING")
	b.finishKeyed(s, 1, r)
	b.pass(s, "a", 1)
	if b.state(other) != job.Running {
		return "a job of a paused queue holds the line"
	}
	return ""
}
