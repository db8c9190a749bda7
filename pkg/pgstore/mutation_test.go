package pgstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// A guard that nobody misses guards nothing. Each mutation takes one guard out of the SQL, in a schema of its own, and
// shows that the check which stands for it then fails. violated returns what went wrong, or "".
var mutations = []struct {
	guard    string
	function string
	old, new string
	violated func(b *bench) string
}{
	{"finishFence, the fence", "finish_v1", "AND l.fence = i.fence ", "", staleWrite("finish", "its job runs in the same session under a new claim")},
	{"finishFence, the session", "finish_v1", " AND l.session IS NOT DISTINCT FROM p_session", " AND l.state = 1", staleWrite("finish", "it names the session of another process")},
	{"the fence of retry", "retry_v1", "AND l.fence = i.fence ", "", staleWrite("retry", "its job runs in the same session under a new claim")},
	{"the session of retry", "retry_v1", "AND l.session IS NOT DISTINCT FROM p_session", "", staleWrite("retry", "it names the session of another process")},
	{"the fence of bury", "bury_v1", "AND l.fence = i.fence ", "", staleWrite("bury", "its job runs in the same session under a new claim")},
	{"the session of bury", "bury_v1", " AND l.session IS NOT DISTINCT FROM p_session", "", staleWrite("bury", "it names the session of another process")},
	{"the fence of release", "release_v1", "AND l.fence = i.fence ", "", staleWrite("release", "its job runs in the same session under a new claim")},
	{"the session of release", "release_v1", "AND l.session IS NOT DISTINCT FROM p_session", "", staleWrite("release", "it names the session of another process")},
	{"claimFence and the rise of release", "claim_v1", "fence = l.fence + 1", "fence = l.fence", fenceStandsStill},
	{"the rise of recover", "recover_v1", "fence = l.fence + 1", "fence = l.fence", recoverLeavesFence},
	{"the guard of the session in claim", "claim_v1", "IF v_alive IS NOT TRUE THEN", "IF false THEN", deadSessionClaims},
	{"liveFromLog", "enqueue_v1", "FROM logged\n", "FROM (SELECT id, scheduled_at, expires_at, max_attempts, priority, kind, queue, enqueued_at, 1 AS size FROM weir.jobs WHERE id = ANY (p_ids) UNION ALL SELECT id, scheduled_at, expires_at, max_attempts, priority, kind, queue, enqueued_at, size FROM logged) AS logged\n", enqueueRunsTwice},
	{"no job before its time", "claim_v1", "AND c.ready_at <= statement_timestamp()", "", claimsEarly},
	{"the renewal asks whether it was given away", "renew_v1", " AND s.dead_at IS NULL", "", renewsDead},
	{"cancel is not overtaken by retry", "retry_v1", " AND l.flags & 20 = 0", "", retryOvertakesCancel},
	{"delete leaves what runs", "delete_v1", "l.state = 1 OR ", "", deletesRunning},
}

func TestEachGuardIsMissedWhenItIsTakenAway(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		t.Run(m.guard, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			if wrong := m.violated(b); wrong != "" {
				t.Fatalf("with the guard: %s", wrong)
			}
			b.empty()
			b.mutate(m.function, m.old, m.new)
			b.pool.Reset() // plans of the old text go with their connections
			if m.violated(b) == "" {
				t.Errorf("nobody misses it")
			}
		})
	}
}

func TestFinishTxMissesItsFenceAndItsSession(t *testing.T) {
	t.Parallel()
	b := open(t)
	whole := b.statement("finish_tx")
	for _, m := range []struct{ guard, instead, way string }{
		{"l.fence = $3", "$3::int IS NOT NULL", "its job runs in the same session under a new claim"},
		{"l.session IS NOT DISTINCT FROM $1", "$1::uuid IS NOT NULL", "it names the session of another process"},
	} {
		if !strings.Contains(whole, m.guard) {
			t.Fatalf("%q is not in finish_tx", m.guard)
		}
		session, r := late[m.way](b)
		accepts := func(text string) bool {
			var id string
			err := b.pool.QueryRow(b.ctx, text, session.UUID(), r.ID.UUID(), r.Fence, nil).Scan(&id)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				t.Fatal(err)
			}
			return err == nil
		}
		if accepts(whole) {
			t.Errorf("accepted when %s", m.way)
		}
		if !accepts(strings.Replace(whole, m.guard, m.instead, 1)) {
			t.Errorf("nobody misses %s", m.guard)
		}
		b.empty()
	}
}

// staleWrite is the check of TestAStaleWriteChangesNothing for one write and one way to be late.
func staleWrite(write, way string) func(b *bench) string {
	return func(b *bench) string {
		for _, w := range writes {
			if w.name != write {
				continue
			}
			session, r := late[way](b)
			before := b.image(r.ID)
			if ok, err := w.write(b, session, r); ok || err != nil || b.image(r.ID) != before {
				return "a stale " + write + " was accepted"
			}
		}
		return ""
	}
}

// fenceStandsStill: two claims one after the other must have different fences.
func fenceStandsStill(b *bench) string {
	s := b.session()
	r := b.claimed(s, 1)[0]
	b.exec("UPDATE weir.live SET state = 0, session = NULL") // by hand: nobody has raised the fence
	again := b.claim(s, 1)
	if len(again) != 1 || again[0].Fence <= r.Fence {
		return "a claim has the fence of the one before"
	}
	return ""
}

func recoverLeavesFence(b *bench) string {
	s := b.session()
	r := b.claimed(s, 1)[0]
	b.crash(s)
	b.recover()
	if b.row("SELECT fence > $2 FROM weir.live WHERE id = $1", r.ID.UUID(), r.Fence) != "t" {
		return "recovered with the fence of the dead"
	}
	return ""
}

func deadSessionClaims(b *bench) string {
	s := b.session()
	b.enqueue(1)
	b.crash(s)
	if got, err := b.store.Claim(b.ctx, request(s, 1)); err == nil && len(got.Jobs) > 0 {
		return "a dead session has claimed"
	}
	return ""
}

func enqueueRunsTwice(b *bench) string {
	j := b.newJob()
	j.Known = true
	for range 2 {
		if _, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{j}); err != nil {
			return err.Error()
		}
		b.finishOne()
	}
	if n := b.row("SELECT count(*) FROM weir.outcomes"); n != "1" {
		return "one id has completed " + n + " times"
	}
	return ""
}

func claimsEarly(b *bench) string {
	b.enqueue(1, func(j *pgstore.NewJob) { j.Delay = time.Hour })
	if len(b.claim(b.session(), 1)) > 0 {
		return "claimed an hour early"
	}
	return ""
}

func renewsDead(b *bench) string {
	s := b.session()
	b.crash(s)
	if _, err := b.store.Renew(b.ctx, s, pgstore.Renewal{Lease: time.Minute, State: "serving"}); err == nil {
		return "a session that was given away was renewed"
	}
	return ""
}

func retryOvertakesCancel(b *bench) string {
	s := b.session()
	r := b.claimed(s, 1)[0]
	b.cancel(r.ID)
	got, _, err := b.store.Retry(b.ctx, s, failuresOf(pgstore.Failure{Outcome: "failed"}, r))
	if err != nil || len(got) > 0 {
		return "a job that somebody cancelled is tried again"
	}
	return ""
}

func deletesRunning(b *bench) string {
	r := b.claimed(b.session(), 1)[0]
	if got, _, err := b.store.Delete(b.ctx, []job.ID{r.ID}); err != nil || got[r.ID] {
		return "a running job was deleted"
	}
	return ""
}
