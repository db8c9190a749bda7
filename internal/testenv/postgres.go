package testenv

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/internal/embedded"
)

// startWithin bounds the start of a server; parallel test processes share two cores in CI.
const startWithin = 60 * time.Second

// fast trades durability, which no test but those with a private server asks for, against time.
var fast = map[string]string{
	"fsync":            "off",
	"full_page_writes": "off",
	"max_connections":  "300",
}

// shared is the server that the tests of this process have in common.
var shared struct {
	mu       sync.Mutex
	postgres *embedded.Postgres
	redis    *embedded.Redis
}

// Postgres returns the URL of the shared server, a superuser's unless one of WEIR_TEST_POSTGRES_URL and
// WEIR_POSTGRES_URL says otherwise. Without these it starts a private server, in about a second. When there is no
// Postgres to be had, the test fails and says what to do.
func Postgres(tb testing.TB) string {
	tb.Helper()
	if url := firstEnv("WEIR_TEST_POSTGRES_URL", "WEIR_POSTGRES_URL"); url != "" {
		return url
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.postgres == nil {
		// Not the test's context: the server outlives it.
		ctx, cancel := context.WithTimeout(context.Background(), startWithin)
		defer cancel()
		p, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Settings: fast})
		if err != nil {
			tb.Fatal(err) // the next test tries again
		}
		shared.postgres = p
	}
	return shared.postgres.URL()
}

// PrivatePostgres starts a server of the test's own, which it may kill, pause and restart. It is closed when the test
// ends. fsync is off and autovacuum on, unless settings (pairs of name and value) say otherwise.
func PrivatePostgres(tb testing.TB, settings ...string) *embedded.Postgres {
	tb.Helper()
	if len(settings)%2 != 0 {
		tb.Fatalf("PrivatePostgres: a setting without a value in %q", settings)
	}
	cfg := embedded.PostgresConfig{Settings: map[string]string{"fsync": "off"}}
	for i := 0; i < len(settings); i += 2 {
		cfg.Settings[settings[i]] = settings[i+1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	p, err := embedded.StartPostgres(ctx, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	closeAtEnd(tb, p)
	return p
}

// Pool returns a pool on url (its pool_max_conns counts, else pgx's default) that is closed when the test ends. The
// test must have given back all connections by then.
func Pool(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		tb.Fatal("open pool: ", err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// PgBouncer returns the URL of a pooler in transaction mode before targetURL, stopped when the test ends. Without a
// program pgbouncer the test is skipped.
func PgBouncer(tb testing.TB, targetURL string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	b, err := embedded.StartPgBouncer(ctx, embedded.PgBouncerConfig{Target: targetURL})
	if errors.Is(err, embedded.ErrNoBinary) {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	closeAtEnd(tb, b)
	return b.URL()
}

func closeAtEnd(tb testing.TB, server interface{ Close() error }) {
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
}

func firstEnv(names ...string) string {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	return ""
}
