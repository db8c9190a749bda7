package pgstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// unique returns an edit that makes a job unique by key.
func unique(key string, edit ...func(*pgstore.Unique)) func(*pgstore.NewJob) {
	u := &pgstore.Unique{Key: []byte(key)}
	for _, f := range edit {
		f(u)
	}
	return func(j *pgstore.NewJob) { j.Unique = u }
}

func replacing(u *pgstore.Unique) { u.Replace = true }
func waiting(u *pgstore.Unique)   { u.Waiting = true }
func forAnHour(u *pgstore.Unique) { u.For = time.Hour }

// enqueueUnique sends one job and returns its id and that of the job that has the key then.
func (b *bench) enqueueUnique(edit ...func(*pgstore.NewJob)) (id, winner job.ID) {
	b.t.Helper()
	j := b.newJob(edit...)
	out, err := b.store.EnqueueUnique(b.ctx, []pgstore.NewJob{j})
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	if w, lost := out.Winners[j.ID]; lost {
		return j.ID, w.ID
	}
	return j.ID, j.ID
}

// started enqueues a job with a unique key and claims it.
func (b *bench) started(key string, edit ...func(*pgstore.Unique)) (job.ID, job.Row) {
	b.t.Helper()
	session := b.session()
	b.enqueueUnique(unique(key, edit...))
	rows := b.claim(session, 1)
	if len(rows) != 1 {
		b.t.Fatalf("%d jobs claimed, want 1", len(rows))
	}
	return session, rows[0]
}

// ends are the ways in which a job with a unique key ends.
var ends = map[string]func(b *bench, session job.ID, r job.Row) error{
	"finish": func(b *bench, session job.ID, r job.Row) error {
		_, err := b.store.Finish(b.ctx, session, completionsOf(r))
		return err
	},
	"finish with keys": func(b *bench, session job.ID, r job.Row) error {
		_, err := b.store.FinishKeyed(b.ctx, session, completionsOf(r), pgstore.Serves{})
		return err
	},
	"finish in a transaction": func(b *bench, session job.ID, r job.Row) error {
		return pgx.BeginFunc(b.ctx, b.pool, func(tx pgx.Tx) error { return b.store.On(tx).FinishTx(b.ctx, session, heldOf(r)[0], nil) })
	},
	"bury": func(b *bench, session job.ID, r job.Row) error {
		_, err := b.store.Bury(b.ctx, session, failuresOf(pgstore.Failure{Outcome: "failed", Final: job.DeadDiscarded}, r))
		return err
	},
	"crash for the third time": func(b *bench, session job.ID, r job.Row) error {
		b.exec("UPDATE weir.live SET crashes = 2")
		b.crash(session)
		_, err := b.store.Recover(b.ctx, nil, 10, 0)
		return err
	},
	"cancel": func(b *bench, session job.ID, r job.Row) error {
		if _, _, err := b.store.Release(b.ctx, session, heldOf(r), 0, 0); err != nil {
			return err
		}
		_, _, err := b.store.Cancel(b.ctx, []job.ID{r.ID}, "not wanted")
		return err
	},
	"expire": func(b *bench, session job.ID, r job.Row) error {
		if _, _, err := b.store.Release(b.ctx, session, heldOf(r), 0, 0); err != nil {
			return err
		}
		b.exec("UPDATE weir.live SET expires_at = clock_timestamp() - interval '1 s'")
		_, err := b.store.Expire(b.ctx, 10)
		return err
	},
	"delete": func(b *bench, session job.ID, r job.Row) error {
		if _, _, err := b.store.Release(b.ctx, session, heldOf(r), 0, 0); err != nil {
			return err
		}
		_, _, err := b.store.Delete(b.ctx, []job.ID{r.ID})
		return err
	},
}

// outlived ends a job and says what is wrong with its key then.
func outlived(end string) func(b *bench) string {
	return func(b *bench) string {
		session, r := b.started("k")
		if _, winner := b.enqueueUnique(unique("k")); winner != r.ID {
			return "the key is free while its job runs"
		}
		if err := ends[end](b, session, r); err != nil {
			return err.Error()
		}
		if n := b.row("SELECT count(*) FROM weir.uniques"); n != "0" {
			return "the key is there after " + end
		}
		if id, winner := b.enqueueUnique(unique("k")); winner != id {
			return "the key is taken after " + end
		}
		return ""
	}
}

func TestAUniqueKeyDiesInTheStatementThatEndsItsJob(t *testing.T) {
	t.Parallel()
	for end := range ends {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			if wrong := outlived(end)(open(t)); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

func windowEnds(b *bench) string {
	session, r := b.started("k", forAnHour)
	if _, err := b.store.Finish(b.ctx, session, completionsOf(r)); err != nil {
		return err.Error()
	}
	if _, winner := b.enqueueUnique(unique("k")); winner != r.ID {
		return "the window ended with its job"
	}
	return ""
}

// keyOfTheOver: an id that is in the log gets no key, whatever the caller knew of it.
func keyOfTheOver(known bool) func(b *bench) string {
	return func(b *bench) string {
		session, r := b.started("k")
		if _, err := b.store.Finish(b.ctx, session, completionsOf(r)); err != nil {
			return err.Error()
		}
		other, _ := b.enqueueUnique(unique("k"))
		again := func(j *pgstore.NewJob) { j.ID, j.Known = r.ID, known }
		if _, winner := b.enqueueUnique(unique("free"), again); winner != r.ID {
			return "the id that is over lost to " + winner.String()
		}
		if known {
			if _, winner := b.enqueueUnique(unique("k", replacing), again); winner != r.ID {
				return "the id that is over lost to " + winner.String()
			}
		}
		if b.state(other) != job.Available {
			return "another job was replaced by one that is over"
		}
		if n := b.row("SELECT count(*) FROM weir.uniques WHERE job_id = $1", r.ID.UUID()); n != "0" {
			return "a job that is over has a key"
		}
		return ""
	}
}

// newerWaits lets a newer job take the key of one that runs, which then fails, is released or dies.
func newerWaits(way string) func(b *bench) string {
	return func(b *bench) string {
		session, r := b.started("k", waiting)
		newer, winner := b.enqueueUnique(unique("k", waiting))
		if winner != newer {
			return "a job that runs counts as waiting"
		}
		var err error
		switch way {
		case "fails":
			_, _, err = b.store.Retry(b.ctx, session, failuresOf(pgstore.Failure{Outcome: "failed"}, r))
		case "is released":
			_, _, err = b.store.Release(b.ctx, session, heldOf(r), 0, 0)
		default:
			b.crash(session)
			_, err = b.store.Recover(b.ctx, nil, 10, 0)
		}
		if err != nil {
			return err.Error()
		}
		if n := b.row("SELECT count(*) FROM weir.live WHERE state = 0"); n != "1" {
			return n + " jobs wait with one key"
		}
		return ""
	}
}

// claimedMeanwhile replaces a job that somebody is just claiming.
func claimedMeanwhile(b *bench) string {
	session := b.session()
	old, _ := b.enqueueUnique(unique("k"))
	tx, err := b.pool.Begin(b.ctx)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	if rows := b.on(tx).claim(session, 1); len(rows) != 1 {
		return "nothing to claim"
	}
	done := make(chan string, 1)
	go func() {
		id, winner := b.enqueueUnique(unique("k", replacing))
		done <- map[bool]string{true: "a job that runs was replaced", false: ""}[winner == id]
	}()
	b.waits()
	if err := tx.Commit(b.ctx); err != nil {
		return err.Error()
	}
	wrong := <-done
	if b.state(old) != job.Running {
		return "the job that was claimed is " + string(b.state(old))
	}
	return wrong
}

// waits returns when a statement of this schema waits for a lock.
func (b *bench) waits() {
	b.t.Helper()
	for b.row("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 in query) > 0", b.schema) == "0" {
		if b.ctx.Err() != nil {
			b.t.Fatalf("nobody waits")
		}
		time.Sleep(time.Millisecond)
	}
}

// revivedTwice retries by hand a dead job whose key a live one has.
func revivedTwice(b *bench) string {
	session, r := b.started("k")
	if err := ends["bury"](b, session, r); err != nil {
		return err.Error()
	}
	other, _ := b.enqueueUnique(unique("k"))
	got, err := b.store.Revive(b.ctx, []job.ID{r.ID})
	if err != nil || len(got) != 1 || got[0].Winner != other || b.state(r.ID) != job.Discarded {
		return fmt.Sprintf("%+v %v: two live jobs have one key", got, err)
	}
	if _, _, err := b.store.Cancel(b.ctx, []job.ID{other}, ""); err != nil {
		return err.Error()
	}
	if got, err = b.store.Revive(b.ctx, []job.ID{r.ID, other}); err != nil || len(got) != 2 || b.row("SELECT count(*) FROM weir.live") != "1" {
		return fmt.Sprintf("%+v %v: want one of two that had one key", got, err)
	}
	if id, winner := b.enqueueUnique(unique("k")); winner == id {
		return "a job that was retried by hand has lost its key"
	}
	return ""
}

var uniqueMutations = []struct {
	guard    string
	function string
	old, new string
	violated func(b *bench) string
}{
	{"keyDies in finish", "finish_v1", "WHERE g.flags & 2 <> 0 AND", "WHERE false AND", outlived("finish")},
	{"keyDies in finish with keys", "finish_keyed_v1", "WHERE x.flags & 2 <> 0 AND", "WHERE false AND", outlived("finish with keys")},
	{"keyDies in bury", "bury_v1", "WHERE g.flags & 2 <> 0 AND", "WHERE false AND", outlived("cancel")},
	{"keyDies in delete", "delete_v1", "(DELETE FROM weir.uniques AS x WHERE ", "(DELETE FROM weir.uniques AS x WHERE false AND ", outlived("delete")},
	{"a window outlives its job", "finish_v1", "(u.until IS NULL OR u.until <= statement_timestamp())", "true", windowEnds},
	{"uniqueAsksLog", "enqueue_unique_v1", "IF v_dups <> '{}' THEN", "IF false THEN", keyOfTheOver(false)},
	{"uniqueAsksLog, before it replaces", "enqueue_unique_v1", "EXISTS (SELECT FROM weir.log_row(", "EXISTS (SELECT FROM weir.dead WHERE id = (", keyOfTheOver(true)},
	{"what was taken over is not retried", "retry_v1", "l.flags & 20 = 0", "l.flags & 4 = 0", newerWaits("fails")},
	{"what was taken over is not released", "release_v1", "l.flags & 20 = 0", "l.flags & 4 = 0", newerWaits("is released")},
	{"what was taken over is not recovered", "recover_v1", "IF r.flags & 20 <> 0", "IF r.flags & 4 <> 0", newerWaits("dies")},
	{"the mark of what was taken over", "enqueue_unique_v1", "flags = l.flags | 16::smallint", "flags = l.flags", newerWaits("fails")},
	{"the lock on what is replaced", "enqueue_unique_v1", "IF v_live AND NOT v_locked THEN", "IF false THEN", claimedMeanwhile},
	{"keyRevives", "revive_v1", "IF v_owner <> d.id THEN", "IF false THEN", revivedTwice},
}

func TestEachGuardOfUniqueKeysIsMissedWhenItIsTakenAway(t *testing.T) {
	t.Parallel()
	for _, m := range uniqueMutations {
		t.Run(m.guard, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			if wrong := m.violated(b); wrong != "" {
				t.Fatalf("with the guard: %s", wrong)
			}
			b.empty()
			b.mutate(m.function, b.text(m.old), b.text(m.new))
			b.pool.Reset()
			if m.violated(b) == "" {
				t.Errorf("nobody misses it")
			}
		})
	}
}

func TestUniqueJobsFromSQLShareTheKeysOfOthers(t *testing.T) {
	t.Parallel()
	b := open(t)
	key, _, err := job.Unique{Key: "report:42"}.Hash(job.Raw{Name: "k"}, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	first, _ := b.enqueueUnique(unique(string(key)))
	call := "SELECT weir.enqueue('k', '{}', queue => 'q', unique_key => 'report:42'%s)"
	if id := b.row(fmt.Sprintf(call, "")); id != first.UUID() {
		t.Errorf("%s, want the id of the winner, %s", id, first.UUID())
	}
	_, err = b.pool.Exec(b.ctx, b.text(fmt.Sprintf(call, ", on_conflict => 'fail'")))
	if err == nil || !strings.Contains(err.Error(), "WE003") || !strings.Contains(err.Error(), first.String()) {
		t.Errorf("%v, want WE003 and the winner", err)
	}
	second := b.row(fmt.Sprintf(call, ", on_conflict => 'replace', unique_for => '1 hour', on_discard => 'failed'"))
	if second == first.UUID() || b.state(first) != job.Cancelled {
		t.Errorf("%s, and the first is %s: want it replaced", second, b.state(first))
	}
	if got := b.row("SELECT until > clock_timestamp() + interval '59 min' FROM weir.uniques WHERE job_id = $1", second); got != "t" {
		t.Errorf("the window of an hour is missing")
	}
	if got := b.row("SELECT failure_kind FROM weir.jobs WHERE id = $1", second); got != "failed" {
		t.Errorf("the failure kind is %s", got)
	}
	if got := b.rows("SELECT DISTINCT error FROM weir.dead"); len(got) != 1 || !strings.HasPrefix(got[0], "superseded by ") {
		t.Errorf("the replaced job ended with %q", got)
	}
	for argument, want := range map[string]string{
		"unique_while => 'x'": "unique_while", "on_conflict => NULL": "on_conflict", "unique_key => ''": "unique_key",
		"unique_for => '1 h'": "unique_for", "on_discard => 'a b'": "on_discard",
	} {
		_, err := b.pool.Exec(b.ctx, b.text("SELECT weir.enqueue('k', "+argument+")"))
		if err == nil || !strings.Contains(err.Error(), want+": want") {
			t.Errorf("%s: %v", argument, err)
		}
	}
}

func TestADiscardedJobHasItsFailureJob(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	big := `{"text":"` + strings.Repeat("x", job.MaxPayloadBytes-11) + `"}`
	wanted := func(j *pgstore.NewJob) { j.OnDiscard, j.Payload = "k.failed", []byte(big) }
	rows := b.claimed(s, 3, wanted)
	got, err := b.store.Bury(b.ctx, s, append(
		failuresOf(pgstore.Failure{Outcome: "failed", Error: "no \"route\"", Stack: "main.go:1", Final: job.DeadDiscarded}, rows[0]),
		failuresOf(pgstore.Failure{Outcome: "cancelled", Final: job.DeadCancelled}, rows[1])...))
	if err != nil || len(got.Ended) != 2 || len(got.Failures) != 1 {
		t.Fatalf("%+v %v, want two ends and one failure job", got, err)
	}
	row, err := b.store.Job(b.ctx, got.Failures[rows[0].ID].ID)
	var f job.Failure
	if err := errors.Join(err, json.Unmarshal(row.Payload, &f)); err != nil {
		t.Fatal(err)
	}
	if row.Kind != "k.failed" || row.Queue != "default" || row.ParentID != rows[0].ID || row.State != job.Available {
		t.Errorf("the failure job is %+v", row)
	}
	if f.ID != rows[0].ID || f.Kind != "k" || f.Error != "no \"route\"" || f.Stack != "main.go:1" || string(f.Payload) != big || f.EnqueuedAt.IsZero() {
		t.Errorf("its payload is of %s %s, with %q, %q and %d bytes", f.ID, f.Kind, f.Error, f.Stack, len(f.Payload))
	}
	if n := b.row("SELECT count(*) FROM weir.jobs WHERE failure_kind IS NOT NULL AND kind = 'k.failed'"); n != "0" {
		t.Errorf("a failure job has a failure job")
	}
	b.exec("UPDATE weir.live SET crashes = 2 WHERE state = 1")
	b.crash(s)
	recovered, err := b.store.Recover(b.ctx, nil, 10, 0)
	if err != nil || len(recovered) != 1 || recovered[0].Failure.ID.IsZero() || b.state(recovered[0].Failure.ID) != job.Available {
		t.Errorf("%+v %v, want a failure job for the third crash", recovered, err)
	}
}

func TestAJobEndsThoughItsFailureJobCannotBeAdded(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	rows := b.claimed(s, 2, func(j *pgstore.NewJob) { j.OnDiscard = "k.failed" })
	b.exec("UPDATE weir.jobs SET failure_kind = 'no kind' WHERE id = $1", rows[0].ID.UUID())
	b.exec(`CREATE FUNCTION weir.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not here'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON weir.jobs FOR EACH ROW WHEN (new.kind = 'k.failed') EXECUTE FUNCTION weir.refuse()`)
	got, err := b.store.Bury(b.ctx, s, failuresOf(pgstore.Failure{Outcome: "failed", Final: job.DeadDiscarded}, rows...))
	if err != nil || len(got.Ended) != 2 {
		t.Fatalf("%+v %v, want both ended", got, err)
	}
	for i, want := range []string{"its kind", "not here"} {
		f := got.Failures[rows[i].ID]
		if !f.ID.IsZero() || !strings.Contains(f.Refused, want) || b.state(rows[i].ID) != job.Discarded {
			t.Errorf("%+v, and the job is %s: want it discarded and %q", f, b.state(rows[i].ID), want)
		}
	}
}
