package pgstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// cut takes a guard out of one function. In its texts weir. stands for the schema.
type cut struct{ function, old, new string }

// The guards of jobs with keys. violated returns what went wrong, or "". Where two guards cover each other, the check is one
// that the other does not reach, or both are cut.
var keyedMutations = []struct {
	guard    string
	cuts     []cut
	violated func(b *bench) string
}{
	{"finishFence", []cut{{"finish_keyed_v1", "AND l.fence = i.fence ", ""}}, staleKeyedFinish},
	{"finishFence, the session", []cut{{"finish_keyed_v1", " AND l.session IS NOT DISTINCT FROM p_session", " AND l.state = 1"}}, strangerFinishes},
	{"lockDelFenced", []cut{{"finish_keyed_v1", "USING unnest(v_done, v_fences) AS d (id, fence)\n    WHERE h.job_id = ANY (ARRAY[d.id]) AND h.fence = d.fence",
		"USING unnest(p_ids) AS d (id)\n    WHERE h.job_id = ANY (ARRAY[d.id])"}}, staleFinishUnlocks},
	{"claimFence", []cut{{"admit_v1", "fence = l.fence + 1", "fence = l.fence"}}, admitLeavesFence},
	{"sessionGuard of admit", []cut{{"admit_v1", "IF NOT g.alive THEN", "IF false THEN"}}, deadSessionAdmits},
	{"sessionGuard of the hand-over", []cut{{"take_here_v1", "p_alive AND ", ""}}, deadSessionTakes},
	{"plainRead", []cut{{"claim_v1", "ORDER BY c.ready_at, c.id LIMIT v_left) AS x\n        INTO v_cfound", "ORDER BY c.ready_at, c.id LIMIT v_left FOR UPDATE SKIP LOCKED) AS x\n        INTO v_cfound"}}, secondDispatcherSkips},
	{"lineCheck", []cut{{"admit_v1", "WHERE y.id <> ALL (v_ids)", "WHERE false"}}, olderIsOvertaken},
	{"lostKeeps", []cut{{"admit_v1", "WHILE cardinality(v_lost) + cardinality(v_left) > 0 LOOP", "WHILE false LOOP"}}, lostIsOvertaken},
	{"batchOrder", []cut{{"lock_keys_v1", "p.rows + p.before", "p.rows"}}, batchOvertakes},
	{"olderBlocked", []cut{{"lock_keys_v1", "ELSE p.rows + p.before + weir.ahead_v1(p.key, p.line_at, p.id, p.most) < p.most", "ELSE true"}}, blockedIsOvertaken},
	{"olderBlocked, alone with its lock", []cut{{"admit_v1", "OR (SELECT b.state FROM weir.live AS b WHERE b.state = 2 AND b.keys[1] = w.key LIMIT 1) IS NOT NULL", ""}}, waiterOfAFreeLockIsOvertaken},
	{"a refusal counts, alone with its lock", []cut{{"admit_v1", "WHERE w.refused OR (SELECT k.slot", "WHERE (SELECT k.slot"}}, refusalIsForgotten},
	{"ownRow", []cut{{"lock_keys_v1", "WHEN p.owned THEN p.rows <= p.most", "WHEN false THEN false"}}, reservationIsWorthless},
	{"ownRowLimit", []cut{{"lock_keys_v1", "WHEN p.owned THEN p.rows <= p.most", "WHEN p.owned THEN true"}}, reservationPassesLimit},
	{"limitCount", []cut{{"lock_keys_v1", "FROM weir.locks AS x WHERE x.key = w.key) AS k", "FROM weir.locks AS x WHERE x.key = w.key AND x.slot < 1) AS k"}}, higherSlotIsForgotten},
	{"limitCount of the hand-over", []cut{{"finish_keyed_v1", "k.rows - k.freed + v_kept + 1 >", "v_kept + 1 >"}}, handoverPassesLimit},
	{"pgReserve", []cut{{"pass_v1", "weir.lock_keys_v1(a.id, a.line, a.fence, a.key, a.own, a.n, a.refused, a.run, true, p_reserve_ms, false) AS k\n      WHERE k.got", "unnest(a.id) AS k (job_id)"}}, reservedIsOvertaken},
	{"lockIfFree", []cut{{"pass_v1", "ARRAY(SELECT weir.heads_v1(p_key, 20))", "ARRAY(SELECT l.id FROM weir.live AS l WHERE l.state = 2 AND l.keys[1] = p_key ORDER BY l.line_at LIMIT 1)"}}, passLocksInVain},
	{"passWaits", []cut{{"pass_v1", "ORDER BY l.id FOR UPDATE", "ORDER BY l.id FOR UPDATE SKIP LOCKED"}}, passDoesNotWait},
	{"passLoop", []cut{{"pass_v1", "cardinality(v_had) < cardinality(v_heads) OR cardinality(v_heads) = 20", "false"}}, passStopsEarly},
	{"oldestOnly", []cut{{"finish_keyed_v1", "OFFSET v_nobody LIMIT 1", "OFFSET v_nobody LIMIT 1 FOR UPDATE SKIP LOCKED"}}, secondIsHanded},
	{"oldestOnly, several locks", []cut{{"finish_keyed_v1", "OR EXISTS (SELECT FROM weir.waits", "OR false AND EXISTS (SELECT FROM weir.waits"}}, handoverPassesWaiter},
	{"cancelPass", []cut{{"bury_v1", "SELECT w.id, w.keys, CASE", "SELECT w.id, NULL::text[], CASE"}}, cancelTellsNobody},
	{"lingerKept", []cut{{"release_v1", "p_linger_ms > 0 AND b.keys", "false AND b.keys"}, {"release_v1", "p_linger_ms <= 0 AND b.keys", "b.keys"}}, releasedMayStillRun},
	{"recoverFence", []cut{{"recover_v1", "SET fence = r.fence + 1, until", "SET until"}}, recoverLosesPlace},
	{"resvAll", []cut{{"tidy_reservations_v1", "k.job_id = ANY (ARRAY[o.job_id]) RETURNING", "k.job_id = ANY (ARRAY[o.job_id]) AND k.until < statement_timestamp() RETURNING"}}, halfAReservation},
	{"rule G of the orphans", []cut{{"tidy_orphans_v1", "OR l.fence <> k.fence OR (k.until IS NULL AND l.state <> 1)", "OR true"}}, orphansTakeHeld},
	{"only slots seen free", []cut{{"lock_keys_v1", "WHERE (SELECT k.slot FROM weir.locks AS k WHERE k.key = g.key AND k.slot = s.slot) IS NULL", ""}, {"lock_keys_v1", "p.rows + p.before", "p.before"}}, waitsForFinishTx},
	{"all of its locks or none", []cut{{"lock_keys_v1", "bool_and(j.may) OVER (PARTITION BY j.id)", "true OR bool_and(j.may) OVER (PARTITION BY j.id)"}, {"lock_keys_v1", "v_failed IS NOT NULL", "false"}}, holdsWhileItWaits},
	{"no better priority due", []cut{{"take_here_v1", "AND NOT weir.better_due_v1(p_queue, p_priority, p_kinds)", ""}}, handoverPassesPriority},
	{"no rate is handed over", []cut{{"take_here_v1", "AND p_rates IS NULL", ""}}, handoverPassesRate},
	{"no mode is handed over", []cut{{"take_here_v1", "AND p_mode = 0 ", ""}}, handoverPassesMode},
	{"no hand-over into a limited queue", []cut{{"take_here_v1", "AND p_queue <> ALL (p_limited) ", ""}}, handoverPassesQueueLimit},
	{"a queue's limit is counted under its row", []cut{{"queue_room_v1", "room := q.slots - ", "room := q.slots - 0 * "}}, queueLimitForgotten},
	{"a throttled job gives up its locks", []cut{{"admit_v1", "DELETE FROM weir.locks AS k USING late AS t WHERE t.keys IS NOT NULL", "DELETE FROM weir.locks AS k USING late AS t WHERE false"}}, throttledKeepsLocks},
	{"a throttled job is not admitted early", []cut{{"admit_v1", "AND l.flags & 1 = 1 AND l.ready_at <= statement_timestamp()", "AND l.flags & 1 = 1"}}, throttledStartsEarly},
	{"alone: nobody else wants the lock", []cut{{"alone_v1", "b.keys[1] = c.keys[1] OFFSET 1 LIMIT 1) IS NULL", "b.keys[1] = c.keys[1] OFFSET 1 LIMIT 1) IS NULL OR true"}}, olderIsNotSeen},
	{"alone: nobody is blocked on it", []cut{{"alone_v1", "AND (SELECT b.state FROM weir.live AS b WHERE b.state = 2 AND b.keys[1] = c.keys[1] LIMIT 1) IS NULL", ""}}, waiterIsNotSeen},
	{"alone: nobody with several locks waits", []cut{{"alone_v1", " OR EXISTS (SELECT FROM weir.waits)", ""}}, waiterForSeveralIsNotSeen},
	{"alone: none with several locks is in the claim", []cut{{"alone_v1", "HAVING bool_and(cardinality(c.keys) = 1)", "HAVING true OR bool_and(cardinality(c.keys) = 1)"}, {"alone_v1", "c.id = ANY (p_alone)", "c.id = ANY (p_alone) AND cardinality(c.keys) = 1"}}, severalAreNotSeen},
	{"alone: the lock has no row", []cut{{"alone_v1", "AND (SELECT k.slot FROM weir.locks AS k WHERE k.key = c.keys[1] LIMIT 1) IS NULL", ""}}, higherSlotIsNotSeen},
	{"alone: no entry in limits", []cut{{"alone_v1", "EXISTS (SELECT FROM weir.limits) OR ", ""}}, entryIsNotSeen},
	{"alone: still available", []cut{{"alone_v1", "l.state + 0 = 0 AND ", ""}}, changedSince("state = 1")},
	{"alone: still due", []cut{{"alone_v1", "AND l.ready_at <= statement_timestamp() ", ""}}, changedSince("ready_at = clock_timestamp() + interval '1 min'")},
	{"alone: not expired since", []cut{{"alone_v1", "AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())", ""}}, changedSince("expires_at = clock_timestamp() - interval '1 s'")},
	{"alone: has not killed two processes", []cut{{"alone_v1", "AND c.crashes < 2 ", ""}, {"alone_v1", "AND l.crashes < 2", ""}}, changedSince("crashes = 2")},
	{"alone: only into slots that are kept", []cut{{"claim_v1", "greatest(p_alone[q] - (cardinality(v_tids) - v_before), 0)", "100"}}, slotsAreNotKept},
	{"paused queues leave the line", []cut{{"runnable_v1", "q.paused_at IS NOT NULL", "false"}}, pausedHoldsLine},
}

func TestEachGuardOfKeysIsMissedWhenItIsTakenAway(t *testing.T) {
	t.Parallel()
	for _, m := range keyedMutations {
		t.Run(m.guard, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			if wrong := m.violated(b); wrong != "" {
				t.Fatalf("with the guard: %s", wrong)
			}
			b.empty()
			for _, c := range m.cuts {
				b.mutate(c.function, b.text(c.old), b.text(c.new))
			}
			b.pool.Reset() // plans of the old text go with their connections
			if m.violated(b) == "" {
				t.Errorf("nobody misses it")
			}
		})
	}
}

// held runs f while another transaction has the live row of a job locked, and then rolls that back.
func (b *bench) whileLocked(id job.ID, f func()) {
	b.t.Helper()
	tx, err := b.pool.Begin(b.ctx)
	b.must(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(b.ctx)) }()
	_, err = tx.Exec(b.ctx, b.text("SELECT FROM weir.live WHERE id = $1 FOR UPDATE"), id.UUID())
	b.must(err)
	f()
}

func (b *bench) limit(key string, n int) {
	b.exec("INSERT INTO weir.limits (key, slots) VALUES ($1, $2) ON CONFLICT (key, prefix, rate) DO UPDATE SET slots = excluded.slots", key, n)
}

func ran(rows []job.Row, id job.ID) bool {
	return slices.ContainsFunc(rows, func(r job.Row) bool { return r.ID == id })
}

func staleKeyedFinish(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	r.Fence--
	if got := b.finishKeyed(s, 0, r); len(got.Accepted) > 0 {
		return "a stale finish was accepted"
	}
	return ""
}

func strangerFinishes(b *bench) string {
	r := b.admitted(b.session(), b.keyed("a"))
	if got := b.finishKeyed(b.session(), 0, r); len(got.Accepted) > 0 {
		return "another session has finished it"
	}
	return ""
}

func staleFinishUnlocks(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	r.Fence--
	b.finishKeyed(s, 0, r)
	if len(b.locks("a")) != 1 {
		return "a stale finish has deleted the lock of the new claim"
	}
	return ""
}

func admitLeavesFence(b *bench) string {
	s := b.session()
	id := b.keyed("a")
	b.admit(s, id)
	if b.row("SELECT fence FROM weir.live WHERE id = $1", id.UUID()) != "1" {
		return "a claim has the fence of the one before"
	}
	return ""
}

func deadSessionAdmits(b *bench) string {
	s := b.session()
	id := b.keyed("a")
	b.crash(s)
	got, err := b.store.Admit(b.ctx, s, []pgstore.AdmitJob{{ID: id}}, serves(0))
	if !errors.Is(err, pgstore.ErrSessionLost) || len(got.Jobs) > 0 {
		return "a dead session admits"
	}
	return ""
}

func deadSessionTakes(b *bench) string {
	s, other := b.session(), b.session()
	r := b.admitted(s, b.keyed("a"))
	b.admit(s, b.keyed("a"))
	b.crash(other)
	b.exec("DELETE FROM weir.locks WHERE job_id = $1", r.ID.UUID())
	if got := b.pass(other, "a", 1); len(got.Jobs) > 0 {
		return "a dead session was handed a job"
	}
	return ""
}

// secondDispatcherSkips: two dispatchers that claim at once must see the same first candidate.
func secondDispatcherSkips(b *bench) string {
	s := b.session()
	first := b.keyed("a")
	b.keyed("a")
	tx, err := b.pool.Begin(b.ctx)
	b.must(err)
	defer func() { _ = tx.Rollback(b.ctx) }()
	_, err = b.store.On(tx).Claim(b.ctx, request(s, 1))
	b.must(err)
	got, err := b.store.Claim(b.ctx, request(s, 1))
	b.must(err)
	if len(got.Candidates) != 1 || got.Candidates[0].ID != first {
		return "a second dispatcher went past the first candidate"
	}
	return ""
}

func olderIsOvertaken(b *bench) string {
	s := b.session()
	older, newer := b.keyed("a"), b.keyed("a")
	if got := b.admit(s, newer); ran(got.Jobs, newer) || !ran(got.Jobs, older) || len(got.Left) != 1 || got.Left[0].ID != newer {
		return "a newer job was admitted before an older one that is due"
	}
	return ""
}

// lostIsOvertaken: the older one is in the line of b by its second key, where lineCheck does not see it.
func lostIsOvertaken(b *bench) (wrong string) {
	s := b.session()
	older, newer := b.keyed("a", "b"), b.keyed("b")
	b.whileLocked(older, func() {
		if got := b.admit(s, older, newer); ran(got.Jobs, newer) || len(got.Left) != 2 {
			wrong = "a newer job was admitted while an older one was in another's hands"
		}
	})
	return wrong
}

func batchOvertakes(b *bench) string {
	s := b.session()
	b.admitted(s, b.keyed("b"))
	older, newer := b.keyed("a", "b"), b.keyed("a")
	if got := b.admit(s, older, newer); ran(got.Jobs, newer) {
		return "a newer job of the batch took a key that a refused one waits for"
	}
	return ""
}

func blockedIsOvertaken(b *bench) string {
	s := b.session()
	b.admitted(s, b.keyed("b"))
	b.admit(s, b.keyed("a", "b"))
	newer := b.keyed("a")
	if got := b.admit(s, newer); ran(got.Jobs, newer) {
		return "a newer job took a key that a blocked one waits for"
	}
	return ""
}

// waiterOfAFreeLockIsOvertaken: the lock was freed a moment ago and has not been passed on.
func waiterOfAFreeLockIsOvertaken(b *bench) string {
	s := b.session()
	b.admitted(s, b.keyed("a"))
	b.admit(s, b.keyed("a"))
	b.exec("DELETE FROM weir.locks")
	newer := b.keyed("a")
	if got := b.admit(s, newer); ran(got.Jobs, newer) {
		return "a newer job took a free key before the one that waits for it"
	}
	return ""
}

func refusalIsForgotten(b *bench) string {
	id := b.keyed("a")
	got, err := b.store.Admit(b.ctx, b.session(), []pgstore.AdmitJob{{ID: id, Refused: "a"}}, serves(0))
	b.must(err)
	if ran(got.Jobs, id) || len(got.Recheck) == 0 {
		return "a job that Redis refused was tried, or is owed no second look"
	}
	return ""
}

// reserved makes a job wait for a key and gives it a reservation.
func (b *bench) reserved(s job.ID, key string) job.ID {
	b.t.Helper()
	r := b.admitted(s, b.keyed(key))
	id := b.keyed(key)
	b.admit(s, id)
	if got := b.finishKeyed(s, 0, r); len(got.Reserved) != 1 || got.Reserved[0].ID != id {
		b.t.Fatalf("no reservation: %+v", got)
	}
	return id
}

func reservationIsWorthless(b *bench) string {
	s := b.session()
	id := b.reserved(s, "a")
	if got := b.admit(s, id); !ran(got.Jobs, id) {
		return "a job with a reservation was refused"
	}
	return ""
}

func reservationPassesLimit(b *bench) string {
	s := b.session()
	b.limit("a", 2)
	b.admitted(s, b.keyed("a"))
	second := b.admitted(s, b.keyed("a"))
	third := b.keyed("a")
	b.admit(s, third)
	b.finishKeyed(s, 0, second)
	b.limit("a", 1)
	if got := b.admit(s, third); ran(got.Jobs, third) || len(b.locks("a")) != 1 {
		return "a reservation was used above a limit that was lowered"
	}
	return ""
}

// twoThenOne makes a holder in slot 1 of a key whose limit is 1 by now.
func (b *bench) twoThenOne(s job.ID) (holder job.Row) {
	b.limit("a", 2)
	first := b.admitted(s, b.keyed("a"))
	holder = b.admitted(s, b.keyed("a"))
	b.finishKeyed(s, 0, first)
	b.limit("a", 1)
	return holder
}

func higherSlotIsForgotten(b *bench) string {
	s := b.session()
	b.twoThenOne(s)
	id := b.keyed("a")
	if got := b.admit(s, id); ran(got.Jobs, id) {
		return "a job was admitted beside a holder in a slot above the limit"
	}
	return ""
}

func handoverPassesLimit(b *bench) string {
	s := b.session()
	b.limit("a", 2)
	first := b.admitted(s, b.keyed("a"))
	b.admitted(s, b.keyed("a"))
	b.admit(s, b.keyed("a"))
	b.limit("a", 1)
	if got := b.finishKeyed(s, 1, first); len(got.Handed)+len(got.Reserved) > 0 {
		return "a lock was handed over although the limit was lowered"
	}
	return ""
}

// other moves a job to a queue that the process does not serve, but another does.
func (b *bench) other(id job.ID) {
	b.exec("UPDATE weir.live SET queue = 'other' WHERE id = $1", id.UUID())
	_, err := b.store.OpenSession(b.ctx, pgstore.Session{
		ID: b.ids.New(), Role: "worker", Lease: time.Hour, Host: "test", PID: 2, Version: "test", Queues: []string{"other"}, Kinds: []string{"k"},
	})
	b.must(err)
}

func reservedIsOvertaken(b *bench) string {
	s := b.session()
	r := b.admitted(s, b.keyed("a"))
	older := b.keyed("a")
	b.admit(s, older)
	b.other(older)
	b.exec("DELETE FROM weir.locks WHERE job_id = $1", r.ID.UUID())
	b.pass(s, "a", 1)
	newer := b.keyed("a")
	if got := b.admit(s, newer); ran(got.Jobs, newer) {
		return "a newer job was admitted before the next in line"
	}
	return ""
}

func passLocksInVain(b *bench) (wrong string) {
	s := b.session()
	b.admitted(s, b.keyed("a"))
	waiter := b.keyed("a")
	b.admit(s, waiter)
	tx, err := b.pool.Begin(b.ctx)
	b.must(err)
	defer func() { _ = tx.Rollback(b.ctx) }()
	_, err = b.store.On(tx).Pass(b.ctx, s, "a", serves(1))
	b.must(err)
	var id string
	err = b.pool.QueryRow(b.ctx, b.text("SELECT id FROM weir.live WHERE id = $1 FOR UPDATE SKIP LOCKED"), waiter.UUID()).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "the first in line was locked although its key is busy"
	}
	b.must(err)
	return ""
}
