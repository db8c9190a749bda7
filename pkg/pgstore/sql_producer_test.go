package pgstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// produce calls weir.enqueue with arguments as they stand in SQL, and returns the job's id.
func (b *bench) produce(args string) (job.ID, error) {
	var id job.ID
	err := b.pool.QueryRow(b.ctx, b.text("SELECT weir.enqueue("+args+")::text"), pgx.QueryExecModeSimpleProtocol).Scan(&id)
	return id, err
}

func (b *bench) job(id job.ID) job.Row {
	b.t.Helper()
	r, err := b.store.Job(b.ctx, id)
	if err != nil {
		b.t.Fatalf("job %s: %v", id, err)
	}
	return r
}

func TestAJobFromSQLHasWhatItsArgumentsSay(t *testing.T) {
	t.Parallel()
	b := open(t)
	before := time.Now().Add(-time.Minute)
	id, err := b.produce("'k'")
	if err != nil {
		t.Fatal(err)
	}
	r := b.job(id)
	if r.Kind != "k" || r.Queue != "default" || r.Priority != 5 || r.MaxAttempts != 25 || string(r.Payload) != "{}" ||
		r.State != job.Available || r.Timeout != 0 || !r.Backoff.IsZero() || len(r.Tags)+len(r.Metadata) != 0 ||
		!r.ExpiresAt.IsZero() || !r.ScheduledAt.IsZero() || r.EnqueuedAt.Before(before) || r.ID.Time().Before(before) {
		t.Errorf("defaults: got %+v", r)
	}
	want := b.ids.New()
	id, err = b.produce(`kind => 'mail.welcome', payload => '{"b": 1,  "a": 2}', queue => 'mail', priority => 1, delay => '90 s',
		expires_in => '1 h', max_attempts => 3, timeout => '30 s', backoff => 'exp 1s 1h0m0s', tags => '{eu,"a,b"}',
		metadata => '{"req": "42", "emoji": "\ud83d\ude00"}', id => '` + want.UUID() + `'`)
	if err != nil || id != want {
		t.Fatalf("got %s, %v, want %s", id, err, want)
	}
	r = b.job(id)
	if r.Kind != "mail.welcome" || r.Queue != "mail" || r.Priority != 1 || r.MaxAttempts != 3 || r.State != job.Scheduled ||
		string(r.Payload) != `{"b": 1,  "a": 2}` || r.Timeout != 30*time.Second || r.Backoff != job.Exponential(time.Second, time.Hour) ||
		fmt.Sprint(r.Tags) != "[eu a,b]" || fmt.Sprint(r.Metadata) != "map[emoji:😀 req:42]" {
		t.Errorf("all arguments: got %+v", r)
	}
	if wait := r.ReadyAt.Sub(r.EnqueuedAt); wait < 90*time.Second || wait > 91*time.Second {
		t.Errorf("due after %s, want 90s", wait)
	}
	if left := r.ExpiresAt.Sub(r.ReadyAt); left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("expires %s after it is due, want 1h", left)
	}
}

func TestAnExpiryCountsFromWhenTheJobIsDue(t *testing.T) {
	t.Parallel()
	b := open(t)
	at := time.Now().Add(3 * time.Hour)
	for name, edit := range map[string]func(*pgstore.NewJob){
		"at once":            func(*pgstore.NewJob) {},
		"with a delay":       func(j *pgstore.NewJob) { j.Delay = 2 * time.Hour },
		"at a time":          func(j *pgstore.NewJob) { j.ScheduledAt = at },
		"at a time long ago": func(j *pgstore.NewJob) { j.ScheduledAt = at.AddDate(-60, 0, 0) },
	} {
		for _, known := range []bool{false, true} {
			id := b.enqueue(1, edit, func(j *pgstore.NewJob) { j.ExpiresIn, j.Known = time.Hour, known })[0]
			r := b.job(id)
			if d := r.ExpiresAt.Sub(r.ReadyAt); d < time.Hour-time.Second || d > time.Hour+time.Second {
				t.Errorf("%s (known %v): expires %s after it is due", name, known, d)
			}
		}
	}
}

// refused are calls that weir.enqueue must refuse, by the argument that the error must name.
var refused = []struct{ argument, args string }{
	{"kind", "NULL"}, {"kind", "''"}, {"kind", "'a b'"}, {"kind", "E'a\\n'"}, {"kind", "repeat('k', 129)"}, {"kind", "'ü'"},
	{"queue", "'k', queue => NULL"}, {"queue", "'k', queue => ''"}, {"queue", "'k', queue => repeat('ü', 65)"},
	{"queue", "'k', queue => E'a\\tb'"},
	{"payload", "'k', payload => NULL"}, {"payload", `'k', payload => to_json(repeat('x', 1048575))`},
	{"priority", "'k', priority => 0"}, {"priority", "'k', priority => 10"}, {"priority", "'k', priority => NULL"},
	{"priority", "'k', priority => 100000"},
	{"max_attempts", "'k', max_attempts => 0"}, {"max_attempts", "'k', max_attempts => 10001"}, {"max_attempts", "'k', max_attempts => NULL"},
	{"delay", "'k', delay => '-1 s'"}, {"delay", "'k', delay => '1 s', scheduled_at => now()"}, {"delay", "'k', delay => '100000 years'"},
	{"scheduled_at", "'k', scheduled_at => 'infinity'"}, {"scheduled_at", "'k', scheduled_at => '10000-01-01 00:00:00+00'"},
	{"expires_in", "'k', expires_in => '-1 s'"}, {"expires_in", "'k', expires_in => '100000 years'"},
	{"expires_in", "'k', scheduled_at => '9999-12-30 00:00:00+00', expires_in => '2 days'"},
	{"timeout", "'k', timeout => '0'"}, {"timeout", "'k', timeout => '-1 s'"}, {"timeout", "'k', timeout => '0.0001 s'"},
	{"timeout", "'k', timeout => '500 years'"},
	{"backoff", "'k', backoff => 'x'"}, {"backoff", "'k', backoff => 'fixed'"}, {"backoff", "'k', backoff => 'fixed 1'"},
	{"backoff", "'k', backoff => 'fixed 1x'"}, {"backoff", "'k', backoff => 'fixed 0s'"}, {"backoff", "'k', backoff => 'fixed 25h'"},
	{"backoff", "'k', backoff => 'exp 2h 1h'"}, {"backoff", "'k', backoff => 'fixed ' || repeat('1s', 40)"}, {"backoff", "'k', backoff => ''"},
	{"tags", "'k', tags => array_fill('a'::text, '{33}')"}, {"tags", "'k', tags => '{NULL}'"}, {"tags", "'k', tags => '{\"\"}'"},
	{"tags", "'k', tags => ARRAY[repeat('x', 129)]"}, {"tags", "'k', tags => ARRAY[E'a\\nb']"},
	{"metadata", "'k', metadata => '[]'"}, {"metadata", "'k', metadata => 'null'"}, {"metadata", `'k', metadata => '{"a": 1}'`},
	{"metadata", `'k', metadata => '{"a": "b\u0000"}'`}, {"metadata", `'k', metadata => '{"": "b"}'`},
	{"metadata", `'k', metadata => json_build_object('a', repeat('x', 1025))`}, {"metadata", `'k', metadata => '{"a": "x\ny"}'`},
	{"metadata", `'k', metadata => (SELECT json_object_agg(i, 'x') FROM generate_series(1, 33) AS i)`},
	{"id", "'k', id => '00000000-0000-0000-0000-000000000000'"}, {"id", "'k', id => 'ffffffff-ffff-4fff-bfff-ffffffffffff'"},
}

func TestSQLIsToldWhichArgumentIsWrong(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, c := range refused {
		_, err := b.produce(c.args)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || !strings.HasPrefix(pg.Message, "enqueue: "+c.argument+": want ") &&
			!strings.HasPrefix(pg.Message, "enqueue: "+c.argument+": not ") {
			t.Errorf("enqueue(%s): got %v, want 22023 about %s", c.args, err, c.argument)
		}
	}
	if n := b.row("SELECT count(*) FROM weir.jobs"); n != "0" {
		t.Errorf("%s jobs were stored", n)
	}
}

// accepted are calls at the very limits.
var accepted = []string{
	"repeat('k', 128)", "'k', queue => repeat('ü', 64)", `'k', payload => to_json(repeat('x', 1048574))`, "'k', payload => 'null'",
	"'k', priority => 1", "'k', priority => 9", "'k', max_attempts => 1", "'k', max_attempts => 10000", "'k', delay => '0'",
	"'k', scheduled_at => '-infinity'", "'k', scheduled_at => '0044-03-15 BC'", "'k', scheduled_at => '9999-12-31 00:00:00+00'",
	"'k', timeout => '1 ms'", "'k', timeout => '100 years'", "'k', backoff => 'poly'", "'k', backoff => 'fixed 24h0m0s'",
	"'k', backoff => 'exp 1ms 1ms'", "'k', backoff => 'fixed 1.5s'", "'k', tags => '{}'", "'k', tags => array_fill(repeat('x', 128), '{32}')",
	"'k', metadata => '{}'", "'k', metadata => json_build_object(repeat('x', 128), repeat('ü', 512))",
	`'k', payload => '{"a": "\u0000 \ud800", "a": 12345678901234567890.50}'`,
}

func TestWhatSQLMayEnqueueEveryWorkerCanRead(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	for _, args := range accepted {
		id, err := b.produce(args)
		if err != nil {
			t.Errorf("enqueue(%s): %v", short(args), err)
			continue
		}
		b.exec("UPDATE weir.live SET ready_at = clock_timestamp() WHERE ready_at > clock_timestamp()")
		r := b.job(id)
		req := request(s, 10)
		req.Queues[0].Name, req.Kinds = r.Queue, []string{r.Kind}
		got, err := b.store.Claim(b.ctx, req)
		if err != nil || len(got.Jobs) != 1 || got.Jobs[0].ID != id {
			t.Errorf("claim after enqueue(%s): %d jobs, %v", short(args), len(got.Jobs), err)
			b.empty()
			continue
		}
		c := got.Jobs[0]
		if c.Backoff != r.Backoff || strings.Contains(args, "backoff") == c.Backoff.IsZero() || c.Timeout != r.Timeout || c.Timeout < 0 {
			t.Errorf("enqueue(%s): backoff %q, timeout %s", short(args), c.Backoff, c.Timeout)
		}
		b.empty()
	}
}

func TestATriggersJobFollowsItsTransaction(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.exec(`CREATE TABLE weir.users (id int PRIMARY KEY)`)
	b.exec(`CREATE FUNCTION weir.welcome() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM weir.enqueue('k', json_build_object('user_id', NEW.id), queue => 'q'); RETURN NEW; END $$`)
	b.exec(`CREATE TRIGGER welcome AFTER INSERT ON weir.users FOR EACH ROW EXECUTE FUNCTION weir.welcome()`)
	s := b.session()
	for _, commit := range []bool{false, true} {
		tx, err := b.pool.Begin(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(b.ctx, b.text("INSERT INTO weir.users VALUES (1), (2)")); err != nil {
			t.Fatal(err)
		}
		if n := len(b.claim(s, 10)); n != 0 {
			t.Errorf("%d jobs claimed before the commit", n)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(b.ctx); err != nil {
			t.Fatal(err)
		}
		got := b.claim(s, 10)
		if want := map[bool]int{false: 0, true: 2}[commit]; len(got) != want {
			t.Errorf("committed %v: claimed %d", commit, len(got))
		}
	}
}

func TestAProducersRoleNeedsTheGrantsOfTheManual(t *testing.T) {
	t.Parallel()
	b := open(t)
	role := "p_" + b.schema
	b.exec("CREATE ROLE " + role)
	t.Cleanup(func() {
		b.ctx = t.Context()
		_, _ = b.pool.Exec(t.Context(), "DROP OWNED BY "+role) // the pool may be closed: the role goes with the server then
		_, _ = b.pool.Exec(t.Context(), "DROP ROLE "+role)
	})
	as := func(args string) error {
		tx, err := b.pool.Begin(b.ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(b.ctx) }()
		if _, err := tx.Exec(b.ctx, "SET LOCAL ROLE "+role); err != nil {
			return err
		}
		_, err = tx.Exec(b.ctx, b.text("SELECT weir.enqueue("+args+")"))
		return err
	}
	if err := as("'k'"); err == nil {
		t.Error("a role without any grant has enqueued")
	}
	b.exec("GRANT USAGE ON SCHEMA \"" + b.schema + "\" TO " + role)
	b.exec("GRANT INSERT ON weir.jobs, weir.live TO " + role)
	if err := as("'k', delay => '1 h', tags => '{a}'"); err != nil {
		t.Errorf("with USAGE and INSERT: %v", err)
	}
	withID := "'k', id => '" + b.ids.New().UUID() + "'"
	if err := as(withID); err == nil {
		t.Error("an id of its own went without SELECT: docs/sql-producers.md says that it is needed")
	}
	b.exec("GRANT SELECT ON weir.jobs, weir.jobs_kept, weir.live TO " + role)
	if err := as(withID); err != nil {
		t.Errorf("with an id, USAGE, INSERT and SELECT: %v", err)
	}
	const withKey = "'k', unique_key => 'a'"
	if err := as(withKey); err == nil {
		t.Error("a unique key went without rights to the table of keys: docs/sql-producers.md says that they are needed")
	}
	b.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON weir.uniques TO " + role)
	if err := as(withKey); err != nil {
		t.Errorf("with a unique key and the rights to it: %v", err)
	}
}
