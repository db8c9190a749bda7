package client_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// welcome is the args type of the tests.
type welcome struct {
	UserID int64  `json:"user_id"`
	Note   string `json:"note,omitempty"`
}

func (welcome) Kind() string { return "mail.welcome" }

// rig is a client on a fresh schema.
type rig struct {
	*client.Client
	pool      *pgxpool.Pool
	namespace string
}

// open returns a client on a fresh schema of the shared server, without Redis unless change gives one.
func open(tb testing.TB, change ...func(*client.Config)) rig {
	tb.Helper()
	pool, namespace := testenv.Schema(tb)
	return clientOn(tb, pool, namespace, change...)
}

// clientOn returns a client on pool; it is closed before the pool is.
func clientOn(tb testing.TB, pool *pgxpool.Pool, namespace string, change ...func(*client.Config)) rig {
	tb.Helper()
	cfg := client.Config{Namespace: namespace}
	for _, f := range change {
		f(&cfg)
	}
	c, err := client.New(pool, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return rig{c, pool, namespace}
}

// poolBy returns a pool by way of another address, or with other settings.
func poolBy(tb testing.TB, change func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(testenv.Postgres(tb))
	if err != nil {
		tb.Fatal(err)
	}
	change(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// count returns how many rows of a table of the schema meet a condition.
func (r rig) count(tb testing.TB, table, where string, args ...any) (n int) {
	tb.Helper()
	query := fmt.Sprintf("SELECT count(*) FROM %s.%s WHERE %s", r.namespace, table, where)
	if err := r.pool.QueryRow(context.Background(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// exec runs a statement in which %s is the schema.
func (r rig) exec(tb testing.TB, statement string) {
	tb.Helper()
	if _, err := r.pool.Exec(context.Background(), fmt.Sprintf(statement, r.namespace)); err != nil {
		tb.Fatal(err)
	}
}

// enqueue enqueues a job that must not fail.
func (r rig) enqueue(tb testing.TB, args job.Args, options ...job.Options) job.ID {
	tb.Helper()
	e, err := r.Enqueue(tb.Context(), args, options...)
	if err != nil {
		tb.Fatal(err)
	}
	return e.ID
}

// within returns a context that ends after d, for a call that must not take so long.
func within(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}

// nowhere returns a client whose database does not answer.
func nowhere(tb testing.TB, change ...func(*client.Config)) rig {
	tb.Helper()
	pool := testenv.Pool(tb, "postgres://somebody:hunter2@127.0.0.1:1/nothing?connect_timeout=1")
	short := func(cfg *client.Config) { cfg.Timeout = 300 * time.Millisecond }
	return clientOn(tb, pool, "weir", append([]func(*client.Config){short}, change...)...)
}

// hold locks the log, so that enqueues are sent and wait, until the returned function is called.
func (r rig) hold(tb testing.TB) (release func()) {
	tb.Helper()
	tx, err := r.pool.Begin(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), fmt.Sprintf("LOCK TABLE %s.jobs IN EXCLUSIVE MODE", r.namespace)); err != nil {
		tb.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	tb.Cleanup(release)
	return release
}

// held waits until n statements wait for the lock.
func (r rig) held(tb testing.TB, n int) {
	tb.Helper()
	testenv.Eventually(tb, 5*time.Second, func() bool {
		var waiting int
		const query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = ($1 || '.jobs')::regclass"
		if err := r.pool.QueryRow(context.Background(), query, r.namespace).Scan(&waiting); err != nil {
			tb.Fatal(err)
		}
		return waiting == n
	}, "not %d statements wait", n)
}

// reply is what a call in a goroutine returned.
type reply struct {
	enqueued client.Enqueued
	err      error
}

// start calls Enqueue in a goroutine.
func (r rig) start(ctx context.Context, args job.Args, options ...job.Options) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		e, err := r.Enqueue(ctx, args, options...)
		done <- reply{e, err}
	}()
	return done
}
