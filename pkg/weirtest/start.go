package weirtest

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/embedded"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/pgstore/migrate"
	"github.com/weirq/weir/pkg/worker"
)

// startWithin bounds what Start does, the start of a server included.
const startWithin = 90 * time.Second

// StartOptions say what a queue runs on. The zero value is good.
type StartOptions struct {
	// PostgresURL is a server on which schemas may be made. Zero means the one of WEIR_TEST_POSTGRES_URL; without that a
	// private one is started from the binaries on this machine, once for the test process, and ends with it.
	PostgresURL string
	// Redis carries hints. Nil means a miniredis of the test's own.
	Redis redis.UniversalClient
	// Worker is the configuration of Queue.Worker.
	Worker worker.Config
}

// Queue is a queue of a test's own.
type Queue struct {
	Client    *client.Client
	Worker    *worker.Worker // register handlers with it, then call Drain, or its Run
	Pool      *pgxpool.Pool
	Namespace string // the schema
}

// Start returns a queue with a schema of its own, which is dropped when the test ends. It takes about 0.1 s, and a second
// more when it has to start a server. The test must have ended what it runs, and given back its connections, by its end.
func Start(t testing.TB, opts ...StartOptions) *Queue {
	t.Helper()
	var o StartOptions
	if len(opts) > 1 {
		t.Fatal("weirtest: StartOptions are given twice")
	}
	if len(opts) == 1 {
		o = opts[0]
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	pool, err := pgxpool.New(ctx, o.url(ctx, t))
	if err != nil {
		t.Fatal("weirtest: open a pool: the URL of Postgres is not valid") // its text may hold a password
	}
	t.Cleanup(pool.Close)
	q := &Queue{Pool: pool, Namespace: "t_" + strings.ToLower(rand.Text()[:12])}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startWithin)
		defer cancel()
		if err := migrate.Drop(ctx, pool, q.Namespace); err != nil {
			t.Errorf("weirtest: %v", err)
		}
	})
	if _, err := migrate.Up(ctx, pool, migrate.Config{Schema: q.Namespace, Ahead: 1}); err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	if o.Redis == nil {
		o.Redis = ownRedis(ctx, t)
	}
	q.Client, err = client.New(pool, client.Config{Namespace: q.Namespace, Redis: o.Redis})
	if err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	t.Cleanup(q.Client.Close)
	if o.Worker.Logger == nil {
		o.Worker.Logger = slog.New(slog.DiscardHandler)
	}
	o.Worker.Children.InProcess = true // a test's program cannot be executed again
	if q.Worker, err = worker.New(q.Client, o.Worker); err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	return q
}

// shared is the server that the tests of a process have in common. A watchdog ends it with the process.
var shared struct {
	mu       sync.Mutex
	postgres *embedded.Postgres
}

func (o *StartOptions) url(ctx context.Context, t testing.TB) string {
	t.Helper()
	if o.PostgresURL != "" {
		return o.PostgresURL
	}
	if url := os.Getenv("WEIR_TEST_POSTGRES_URL"); url != "" {
		return url
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.postgres == nil {
		p, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Settings: map[string]string{"fsync": "off"}})
		if err != nil {
			t.Fatalf("weirtest: %v; or name a server in WEIR_TEST_POSTGRES_URL", err)
		}
		shared.postgres = p
	}
	return shared.postgres.URL()
}

func ownRedis(ctx context.Context, t testing.TB) redis.UniversalClient {
	t.Helper()
	server, err := embedded.StartRedis(ctx, embedded.RedisConfig{Kind: embedded.KindMiniredis})
	if err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("weirtest: %v", err)
		}
	})
	opt, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// WithDelayed makes a drain run scheduled and retrying jobs at once, also those that fail meanwhile.
func WithDelayed(o *worker.DrainOptions) { o.Delayed = true }

// Drain runs the jobs that are due, and those that they enqueue, until nothing is left to do, and returns what became of
// them. The test fails at once if that takes more than ten seconds.
func (q *Queue) Drain(t testing.TB, opts ...func(*worker.DrainOptions)) worker.Drained {
	t.Helper()
	var o worker.DrainOptions
	for _, set := range opts {
		set(&o)
	}
	n, err := q.Worker.Drain(t.Context(), o)
	if err != nil {
		t.Fatalf("weirtest: drain: %v; so far %+v", err, n)
	}
	return n
}
