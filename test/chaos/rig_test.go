//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/embedded"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

// rig is one deployment: a schema on a server, a Redis, a directory of ledgers, and a client of the test's own.
type rig struct {
	t         *testing.T
	dir       string
	postgres  *embedded.Postgres // nil: the shared one
	redis     *embedded.Redis    // nil: the shared one, or none
	url       string
	redisURL  string
	namespace string
	pooler    bool
	pool      *pgxpool.Pool // of the test, past proxies and poolers
	client    *client.Client
	ledger    *ledger
	adapt     func(*exec.Cmd)

	noRedis bool
	minutes bool
	gates   int
}

// privatePostgres is for tests that harm the server. fsync is on: an acknowledged enqueue survives its crash.
func privatePostgres(settings ...string) func(*rig) {
	return func(r *rig) {
		r.postgres = testenv.PrivatePostgres(r.t, append([]string{"fsync", "on"}, settings...)...)
	}
}

func privateRedis() func(*rig) {
	return func(r *rig) {
		if r.redis == nil { // else another option has made one
			r.redis = testenv.PrivateRedis(r.t)
		}
	}
}

func withoutRedis() func(*rig) { return func(r *rig) { r.noRedis = true } }

// minutely makes partitions of a minute, and but one ahead: there is something to do for the duty rotate at once.
func minutely() func(*rig) { return func(r *rig) { r.minutes = true } }

func newRig(t *testing.T, options ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	for _, o := range options {
		o(r)
	}
	if r.url == "" {
		if r.postgres != nil {
			r.url = r.postgres.URL()
		} else {
			r.url = testenv.Postgres(t)
		}
	}
	switch {
	case r.redis != nil:
		r.redisURL = r.redis.URL()
	case !r.noRedis:
		r.redisURL = testenv.RedisURL(t)
	}
	var err error
	if r.minutes {
		r.namespace, r.pool = testenv.Namespace(t), testenv.Pool(t, r.url)
		_, err = migrate.Up(t.Context(), r.pool, migrate.Config{Schema: r.namespace, Partitions: pgstore.Minute, Ahead: 1})
		must(t, err)
	} else {
		r.pool, r.namespace = testenv.SchemaOn(t, r.url)
	}
	if r.ledger, err = openLedger(r.dir, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.ledger.file.Close() })
	r.client = r.clientOn(r.pool)
	return r
}

// clientOn returns a client with the rig's Redis, closed when the test ends.
func (r *rig) clientOn(pool *pgxpool.Pool) *client.Client {
	r.t.Helper()
	cfg := client.Config{Namespace: r.namespace, Pooler: r.pooler}
	if r.redisURL != "" {
		cfg.Redis = testenv.Client(r.t, r.redisURL)
	}
	c, err := client.New(pool, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

// in puts the rig's schema into a statement.
func (r *rig) in(sql string) string { return strings.ReplaceAll(sql, "weir.", r.namespace+".") }

// exec runs a statement of the test's own.
func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), r.in(sql), args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// ask returns the one value that a query gives.
func ask[T any](r *rig, sql string, args ...any) T {
	r.t.Helper()
	var v T
	err := r.pool.QueryRow(r.t.Context(), r.in(sql), args...).Scan(&v)
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// count is ask for a number; -1 while the database does not answer, for conditions that are waited for.
func (r *rig) count(sql string, args ...any) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n := -1
	if err := r.pool.QueryRow(ctx, r.in(sql), args...).Scan(&n); err != nil {
		return -1
	}
	return n
}

// sessionOf returns the live session of a process, "" if there is none. The worker's Version is its process' name.
func (r *rig) sessionOf(name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var id string
	err := r.pool.QueryRow(ctx, r.in(`SELECT id::text FROM weir.sessions WHERE version = $1 AND dead_at IS NULL
		ORDER BY started_at DESC LIMIT 1`), name).Scan(&id)
	if err != nil {
		return ""
	}
	return id
}

// enqueue enqueues a job and notes it.
func (r *rig) enqueue(args work, options ...job.Options) job.ID {
	r.t.Helper()
	e, err := r.client.Enqueue(r.t.Context(), args, options...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ledger.note(event{What: acked, ID: e.ID})
	return e.ID
}

// enqueueMany enqueues n equal jobs.
func (r *rig) enqueueMany(n int, args work, options ...job.Options) []job.ID {
	r.t.Helper()
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i].Args = args
		if len(options) > 0 {
			specs[i].Options = options[0]
		}
	}
	out, err := r.client.EnqueueMany(r.t.Context(), specs)
	if err != nil {
		r.t.Fatal(err)
	}
	ids := make([]job.ID, n)
	for i, e := range out {
		ids[i] = e.ID
		r.ledger.note(event{What: acked, ID: e.ID})
	}
	return ids
}

// gate returns the name of a file that does not exist yet; open makes it.
func (r *rig) gate() (name string, open func()) {
	r.gates++
	name = filepath.Join(r.dir, fmt.Sprintf("gate-%d", r.gates))
	return name, func() {
		r.t.Helper()
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// awaitEvents waits until the ledgers hold n events of a kind, of processes with a prefix if that is given.
func (r *rig) awaitEvents(within time.Duration, n int, what string, process ...string) account {
	r.t.Helper()
	var got account
	testenv.Eventually(r.t, within+crowd(), func() bool {
		got = readLedgers(r.t, r.dir).of(what, process...)
		return len(got) >= n
	}, "want %d %s by %v", n, what, process)
	return got
}

// awaitEmpty waits until no job is live.
func (r *rig) awaitEmpty(within time.Duration) {
	r.t.Helper()
	n := -1
	testenv.Eventually(r.t, within+crowd(), func() bool {
		n = r.count("SELECT count(*) FROM weir.live")
		return n == 0
	}, "jobs are still live: %v", lazily(r.left))
}

// lazily is a part of a message that is made when the message is.
type lazily func() string

func (l lazily) String() string { return l() }

// left describes the first jobs that are live.
func (r *rig) left() string {
	rows, err := r.pool.Query(context.Background(), r.in(`SELECT format('%s state %s fence %s attempt %s crashes %s keys %s blocked on %s ready in %s expired %s session %s, lock rows: %s',
			weir.ulid(l.id), l.state, l.fence, l.attempt, l.crashes, l.keys, l.blocked_on, l.ready_at - clock_timestamp(), l.expires_at < clock_timestamp(),
			weir.ulid(l.session), (SELECT array_agg(format('%s/%s fence %s until %s', k.key, k.slot, k.fence, k.until - clock_timestamp())) FROM weir.locks AS k WHERE k.job_id = l.id))
		FROM weir.live AS l ORDER BY l.state DESC, l.line_at LIMIT 10`))
	if err != nil {
		return err.Error()
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d in all\n%s", r.count("SELECT count(*) FROM weir.live"), strings.Join(list, "\n"))
}

// pause waits: for time to pass is what some faults consist of.
func pause(d time.Duration) { <-time.After(d) }

// hold opens a transaction on a connection of its own.
func (r *rig) hold(sql ...string) (release func()) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := conn.Exec(r.t.Context(), "BEGIN"); err != nil {
		r.t.Fatal(err)
	}
	for _, s := range sql {
		if _, err := conn.Exec(r.t.Context(), r.in(s)); err != nil {
			r.t.Fatalf("%s: %v", s, err)
		}
	}
	done := false
	release = func() {
		if !done {
			done = true
			_ = conn.Close(context.Background())
		}
	}
	r.t.Cleanup(release)
	return release
}
