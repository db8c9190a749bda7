package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	{"rescan", "recover_v1", "s.dead_at IS NOT NULL", "s.dead_at > statement_timestamp() - interval '1 min'", forgetsLateClaim},
	{"the guard of the session in claim", "claim_v1", "IF v_alive IS NOT TRUE THEN", "IF false THEN", deadSessionClaims},
	{"liveFromLog", "enqueue_v1", "FROM logged\n", "FROM (SELECT id, scheduled_at, expires_at, max_attempts, priority, kind, queue, enqueued_at, 1 AS size FROM weir.jobs WHERE id = ANY (p_ids) UNION ALL SELECT id, scheduled_at, expires_at, max_attempts, priority, kind, queue, enqueued_at, size FROM logged) AS logged\n", enqueueRunsTwice},
	{"no job before its time", "claim_v1", "AND c.ready_at <= statement_timestamp()", "", claimsEarly},
	{"the renewal asks whether it was given away", "renew_v1", " AND s.dead_at IS NULL", "", renewsDead},
	{"cancel is not overtaken by retry", "retry_v1", " AND l.flags & 20 = 0", "", retryOvertakesCancel},
	{"the mode of a job", "claim_v1", "AND c.crashes < 2 AND c.mode <= p_modes[q]\n", "AND c.crashes < 2\n", claimIgnoresMode(nil, 0)},
	{"the mode of a job with keys", "claim_v1", "AND c.crashes < 2 AND c.mode <= p_modes[q]\n", "AND c.crashes < 2\n", claimIgnoresMode([]job.Key{job.Mutex("a")}, 0)},
	{"the mode of a suspect", "claim_v1", "c.crashes >= 2 AND c.mode <= p_modes[q]", "c.crashes >= 2", claimIgnoresMode(nil, 2)},
	{"the mode of a suspect with keys", "claim_v1", "c.crashes >= 2 AND c.mode <= p_modes[q]", "c.crashes >= 2", claimIgnoresMode([]job.Key{job.Mutex("a")}, 2)},
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

// forgetsLateClaim: what a session claims is given away also if the claim commits after the rounds that followed its mark.
func forgetsLateClaim(b *bench) string {
	s := b.session()
	id := b.enqueue(1)[0]
	tx, err := b.pool.Begin(b.ctx)
	b.must(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(b.ctx)) }()
	if got, err := b.store.On(tx).Claim(b.ctx, request(s, 1)); err != nil || len(got.Jobs) != 1 {
		return fmt.Sprintf("claimed %+v, %v", got.Jobs, err)
	}
	b.exec("UPDATE weir.sessions SET dead_at = clock_timestamp() - interval '10 min' WHERE id = $1", s.UUID())
	early, err := b.store.Recover(b.ctx, nil, 10, 0)
	b.must(err)
	b.must(tx.Commit(b.ctx))
	late, err := b.store.Recover(b.ctx, nil, 10, 0)
	b.must(err)
	if len(early) != 0 || len(late) != 1 || late[0].ID != id {
		return fmt.Sprintf("recovered %+v before the commit and %+v after it", early, late)
	}
	return ""
}

// claimIgnoresMode: a process that accepts a mode leaves jobs that ask for more to others, and takes those that do not.
func claimIgnoresMode(keys []job.Key, crashes int) func(b *bench) string {
	return func(b *bench) string {
		modes := map[job.ID]job.Mode{}
		for mode := job.Spawned; mode >= job.Inline; mode-- { // the first of them asks for most
			of := func(j *pgstore.NewJob) { j.Mode, j.Keys = mode, keys }
			for _, id := range b.enqueue(2, of) {
				modes[id] = mode
			}
		}
		b.exec("UPDATE weir.live SET crashes = $1", crashes)
		b.enqueue(1) // of a plain job: the range is looked into whatever the others are
		s := b.session()
		for accepted := job.Inline; accepted <= job.Spawned; accepted++ {
			req := request(s, 10)
			req.Queues[0].Mode, req.Suspect = accepted, crashes > 0
			got, err := b.store.Claim(b.ctx, req)
			b.must(err)
			seen := 0
			for id, mode := range modes {
				met := ran(got.Jobs, id) || slices.ContainsFunc(got.Candidates, func(c pgstore.Candidate) bool { return c.ID == id })
				if met && mode > accepted {
					return fmt.Sprintf("a job for %s was taken by one that accepts %s", mode, accepted)
				}
				if met {
					seen++
				}
			}
			if want := map[bool]int{false: 1, true: 2}[crashes == 0]; seen < want {
				return fmt.Sprintf("%d jobs were found by one that accepts %s, want %d", seen, accepted, want)
			}
			b.exec("DELETE FROM weir.live WHERE mode = $1 OR state = 1", int(accepted))
			b.enqueue(1)
		}
		return ""
	}
}
