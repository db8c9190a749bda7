package testenv

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

// Schema returns a pool on the shared server and a namespace whose schema is migrated. The pool is closed and the schema
// dropped when the test ends; the test must have given back all connections by then. It takes about 0.1 s.
func Schema(tb testing.TB) (pool *pgxpool.Pool, namespace string) {
	tb.Helper()
	return SchemaOn(tb, Postgres(tb))
}

// SchemaOn is Schema on the server at url, which may be a pooler's. On a private server the schema stays: it may be
// down by then.
func SchemaOn(tb testing.TB, url string) (pool *pgxpool.Pool, namespace string) {
	tb.Helper()
	namespace = Namespace(tb) // first: it goes after the pool
	pool = Pool(tb, url)
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	// Partitions of today and tomorrow: a test may run over midnight, but not for two days.
	if _, err := migrate.Up(ctx, pool, migrate.Config{Schema: namespace, Ahead: 1}); err != nil {
		tb.Fatal(err)
	}
	return pool, namespace
}
