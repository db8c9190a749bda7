package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// fataler is what a *testing.T and a *rapid.T have in common here.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// bench is a migrated schema with a store on it.
type bench struct {
	t      fataler
	ctx    context.Context
	pool   *pgxpool.Pool
	schema string
	store  *pgstore.Store
	ids    *job.IDs
}

// open returns a bench on a schema of its own. Every call is bounded by the test's deadline of two minutes, so that a lock that
// nobody gives back fails the test.
func open(t *testing.T) *bench {
	t.Helper()
	pool, schema := testenv.Schema(t)
	return benchOn(t, pool, schema)
}

func benchOn(t *testing.T, pool *pgxpool.Pool, schema string) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return &bench{t: t, ctx: ctx, pool: pool, schema: schema, store: pgstore.New(pool, pgstore.Config{Schema: schema}), ids: &job.IDs{}}
}

// on returns the bench with its store on another connection or transaction.
func (b *bench) on(db pgstore.Querier) *bench {
	c := *b
	c.store = b.store.On(db)
	return &c
}

func (b *bench) text(sql string) string { return strings.ReplaceAll(sql, "weir.", `"`+b.schema+`".`) }

// exec runs SQL in which weir. stands for the schema.
func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.ctx, b.text(sql), append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...); err != nil {
		b.t.Fatalf("%s: %v", short(sql), err)
	}
}

// rows returns a query's rows, each as its columns' texts with a comma between.
func (b *bench) rows(sql string, args ...any) []string {
	b.t.Helper()
	rows, err := b.pool.Query(b.ctx, b.text(sql), append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		b.t.Fatalf("%s: %v", short(sql), err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		var words []string
		for _, raw := range r.RawValues() {
			if raw == nil {
				words = append(words, "NULL")
				continue
			}
			words = append(words, string(raw))
		}
		return strings.Join(words, ","), nil
	})
	if err != nil {
		b.t.Fatalf("%s: %v", short(sql), err)
	}
	return list
}

func (b *bench) row(sql string, args ...any) string {
	b.t.Helper()
	list := b.rows(sql, args...)
	if len(list) != 1 {
		b.t.Fatalf("%s: %d rows", short(sql), len(list))
	}
	return list[0]
}

func short(sql string) string {
	if len(sql) > 120 {
		return sql[:120] + "…"
	}
	return sql
}

// newJob returns a small job of kind "k" in queue "q", changed by edit.
func (b *bench) newJob(edit ...func(*pgstore.NewJob)) pgstore.NewJob {
	j := pgstore.NewJob{ID: b.ids.New(), Kind: "k", Queue: "q", Payload: []byte(`{"n":1}`), Priority: 5, MaxAttempts: 25}
	for _, f := range edit {
		f(&j)
	}
	return j
}

// enqueue inserts n jobs and returns their ids in order.
func (b *bench) enqueue(n int, edit ...func(*pgstore.NewJob)) []job.ID {
	b.t.Helper()
	jobs, ids := make([]pgstore.NewJob, n), make([]job.ID, n)
	for i := range jobs {
		jobs[i] = b.newJob(edit...)
		ids[i] = jobs[i].ID
	}
	got, err := b.store.Enqueue(b.ctx, jobs)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	if got.Inserted != n {
		b.t.Fatalf("enqueue: %d inserted of %d", got.Inserted, n)
	}
	return ids
}

// session opens a session that serves queue "q" and kind "k".
func (b *bench) session() job.ID {
	b.t.Helper()
	id := b.ids.New()
	_, err := b.store.OpenSession(b.ctx, pgstore.Session{
		ID: id, Role: "worker", Lease: time.Hour, Host: "test", PID: 1, Version: "test",
		Queues: []string{"q"}, Kinds: []string{"k"}, Slots: 100,
	})
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return id
}

// request asks for n jobs of kind "k" from queue "q", of whatever mode.
func request(session job.ID, n int) pgstore.ClaimRequest {
	return pgstore.ClaimRequest{Session: session, Queues: []pgstore.ClaimQueue{{Name: "q", Slots: n, Mode: job.Spawned}}, Kinds: []string{"k"}}
}

func (b *bench) claim(session job.ID, n int) []job.Row {
	b.t.Helper()
	got, err := b.store.Claim(b.ctx, request(session, n))
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return got.Jobs
}

// claimed enqueues n jobs and claims them for session.
func (b *bench) claimed(session job.ID, n int, edit ...func(*pgstore.NewJob)) []job.Row {
	b.t.Helper()
	b.enqueue(n, edit...)
	rows := b.claim(session, n)
	if len(rows) != n {
		b.t.Fatalf("claim: got %d jobs, want %d", len(rows), n)
	}
	return rows
}

func heldOf(rows ...job.Row) []pgstore.Held {
	held := make([]pgstore.Held, len(rows))
	for i, r := range rows {
		held[i] = pgstore.Held{ID: r.ID, Fence: r.Fence}
	}
	return held
}

func completionsOf(rows ...job.Row) []pgstore.Completion {
	done := make([]pgstore.Completion, len(rows))
	for i, h := range heldOf(rows...) {
		done[i].Held = h
	}
	return done
}

func failuresOf(f pgstore.Failure, rows ...job.Row) []pgstore.Failure {
	failed := make([]pgstore.Failure, len(rows))
	for i, h := range heldOf(rows...) {
		failed[i] = f
		failed[i].Held = h
	}
	return failed
}

// crash marks a session dead, as the sweeper does when its lease has ended.
func (b *bench) crash(session job.ID) {
	b.t.Helper()
	b.exec("UPDATE weir.sessions SET lease_until = clock_timestamp() - interval '1 s', dead_at = clock_timestamp() WHERE id = $1", session.UUID())
}

// state returns the word for a job in job_status; "" when there is none. Two rows for one job end the test.
func (b *bench) state(id job.ID) job.State {
	b.t.Helper()
	list := b.rows("SELECT state FROM weir.job_status WHERE id = $1", id.UUID())
	if len(list) > 1 {
		b.t.Fatalf("job_status has %d rows for one job: %v", len(list), list)
	}
	return job.State(strings.Join(list, ""))
}

// image returns all that is stored of a job, to see whether something changed.
func (b *bench) image(id job.ID) string {
	b.t.Helper()
	var all []string
	for table, column := range map[string]string{
		"live": "id", "jobs": "id", "jobs_kept": "id", "outcomes": "id", "dead": "id", "attempts": "job_id", "uniques": "job_id",
	} {
		for _, r := range b.rows(fmt.Sprintf("SELECT to_json(x)::text FROM weir.%s AS x WHERE %s = $1 ORDER BY 1", table, column), id.UUID()) {
			all = append(all, table+": "+r)
		}
	}
	return strings.Join(sortedTexts(all), "\n")
}

// mutate replaces old by new in one of the schema's functions: a guard is taken away. old must be there.
func (b *bench) mutate(function, old, new string) {
	b.t.Helper()
	def := b.row("SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND p.proname = $2",
		b.schema, function)
	if !strings.Contains(def, old) {
		b.t.Fatalf("mutation: %q is not in %s", old, function)
	}
	if _, err := b.pool.Exec(b.ctx, strings.ReplaceAll(def, old, new), pgx.QueryExecModeSimpleProtocol); err != nil {
		b.t.Fatalf("mutation of %s: %v", function, err)
	}
}

// statement returns the text of a file in sql, for this schema.
func (b *bench) statement(name string) string {
	b.t.Helper()
	text, err := os.ReadFile("sql/" + name + ".sql")
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return b.text(string(text))
}
