package migrate_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// bounded is the test's context with a deadline, so that a lock that nobody gives back fails the test.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// open returns a pool on url, changed by edit, closed when the test ends.
func open(t *testing.T, url string, edit func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal("read url: ", err)
	}
	edit(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal("open pool: ", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func execSQL(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(bounded(t), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// column returns the first column of a query as text.
func column(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(bounded(t), sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return list
}

func value(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) string {
	t.Helper()
	list := column(t, pool, sql, args...)
	if len(list) != 1 {
		t.Fatalf("%s: %d rows", sql, len(list))
	}
	return list[0]
}

func up(t *testing.T, pool *pgxpool.Pool, cfg migrate.Config) []int64 {
	t.Helper()
	applied, err := migrate.Up(bounded(t), pool, cfg)
	if err != nil {
		t.Fatalf("up: %v", err)
	}
	return applied
}

func status(t *testing.T, pool *pgxpool.Pool, cfg migrate.Config) migrate.State {
	t.Helper()
	s, err := migrate.Status(bounded(t), pool, cfg)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	return s
}

// locksAtRest counts who holds or awaits the migration lock of a schema.
func locksAtRest(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	return value(t, pool, `SELECT count(*)::text FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (classid::bigint << 32 | objid::bigint) = hashtextextended($1, 0)`, `"`+schema+`".migrations`)
}
