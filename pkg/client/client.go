package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Config tunes a Client. The zero value is the default.
type Config struct {
	// Namespace is the Postgres schema and the prefix of the Redis keys: a letter, then up to 30 of a-z 0-9 _. Zero
	// means "weir".
	Namespace string
	// Redis carries hints to idle workers. It stays the caller's: close it after the client. Nil means that Weir works
	// from Postgres alone.
	Redis redis.UniversalClient
	// Pooler says that a transaction-pooling PgBouncer is between: no named prepared statements are used.
	Pooler bool
	// Timeout bounds a statement, and the waiting and trying again before one, by the local clock. Zero means 10s. A connection
	// is waited for a second at least.
	Timeout time.Duration
	// RedisTimeout bounds one command to Redis. Zero means 100ms.
	RedisTimeout time.Duration
	// Actor is who is named in the table of actions for what is done by hand: Cancel, Retry, Delete, Pause, Resume. Zero
	// means user@host.
	Actor string
	// Tracing gets OpenTelemetry spans: one for each call that enqueues, and, from workers on this client, one for each attempt.
	// Nil means none; otel.GetTracerProvider() is the program's own.
	Tracing trace.TracerProvider
	// Logger gets a line when Redis goes away and when it is back. Nil discards it.
	Logger *slog.Logger
}

// Client enqueues and administers the jobs of one namespace. It is safe for concurrent use; one is enough for a process.
// It holds no connection and no goroutine while nothing is going on.
type Client struct {
	cfg    Config
	pool   *pgxpool.Pool
	store  *pgstore.Store
	bus    *coord.Bus
	clock  clock
	queue  coalescer
	hints  hinter
	local  locals
	resets resets
	gate   *gate

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup         // calls and background goroutines
	open   map[*pgx.Conn]*pending // what the transactions of InTx have to announce
}

var namespaces = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)

// New returns a client on pool. It does no I/O: a program can start while Postgres is away. The pool stays the
// caller's: close it after the client.
func New(pool *pgxpool.Pool, cfg Config) (*Client, error) {
	if pool == nil {
		return nil, errors.New("client: pool is nil")
	}
	if cfg.Namespace == "" {
		cfg.Namespace = "weir"
	}
	if !namespaces.MatchString(cfg.Namespace) {
		return nil, fmt.Errorf("client: namespace is %.64q, want a letter and up to 30 of a-z 0-9 _", cfg.Namespace)
	}
	if cfg.Timeout < 0 || cfg.RedisTimeout < 0 {
		return nil, fmt.Errorf("client: timeouts are %v and %v, want 0 or more", cfg.Timeout, cfg.RedisTimeout)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		cfg:   cfg,
		pool:  pool,
		store: pgstore.New(pool, pgstore.Config{Schema: cfg.Namespace, Pooler: cfg.Pooler, Timeout: cfg.Timeout}),
		bus:   coord.New(cfg.Redis, coord.Config{Namespace: cfg.Namespace, Timeout: cfg.RedisTimeout, Logger: cfg.Logger}),
		open:  map[*pgx.Conn]*pending{},
	}
	c.clock.ids.Store(&job.IDs{})
	c.gate = newGate(pool.Config().MaxConns)
	c.clock.client, c.queue.client, c.hints.client = c, c, c
	return c, nil
}

// Close waits for the calls under way and for what they left to the background, above all the hints of their jobs.
// Calls after it return ErrClosed. It closes neither the pool nor Redis. It may be called again, not from within InTx.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.busy.Wait()
}

// enter begins a call; leave ends it.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	// Under mu: once Close has set closed nothing is added from zero, which WaitGroup forbids while it waits.
	c.busy.Add(1)
	return nil
}

func (c *Client) leave() { c.busy.Done() }

// background runs f in a goroutine that Close waits for. The caller is between enter and leave, or in such a goroutine.
func (c *Client) background(f func()) { c.busy.Go(f) }

// own returns a context for work that must not end with the caller's, because it serves others too, or because a
// statement that is cut off costs a connection.
func (c *Client) own(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
}
