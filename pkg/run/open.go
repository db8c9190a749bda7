package run

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/client"
)

// Options tune Open. The zero value is the default.
type Options struct {
	// Name is shown as application_name in pg_stat_activity unless the connection string says another. Zero means "weir".
	Name string
	// Logger gets a line when Redis goes away and when it is back, and go-redis' own messages at the debug level. Nil discards
	// them.
	Logger *slog.Logger
	// Tracer sees every statement. Nil means none.
	Tracer pgx.QueryTracer
	// Tracing gets OpenTelemetry spans. Nil means the program's global provider if trace.enabled is set, else none.
	Tracing trace.TracerProvider
}

// Open returns a client for what cfg says, and a function that closes it with its pool and Redis. It does no I/O: both
// servers may be away.
func Open(cfg config.Config, opts Options) (c *client.Client, closeAll func(), err error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Tracing == nil && cfg.Trace.Enabled {
		opts.Tracing = otel.GetTracerProvider()
	}
	quietRedis(opts.Logger)
	pool, err := openPool(cfg.Postgres, opts)
	if err != nil {
		return nil, nil, err
	}
	rdb, err := openRedis(cfg.Redis)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	c, err = client.New(pool, client.Config{
		Namespace: cfg.Namespace, Redis: rdb, Pooler: isPooled(cfg.Postgres), Timeout: cfg.Postgres.StatementTimeout,
		RedisTimeout: cfg.Redis.Timeout, Logger: opts.Logger, Tracing: opts.Tracing,
	})
	if err != nil {
		pool.Close()
		closeRedis(rdb)
		return nil, nil, err
	}
	return c, func() { c.Close(); pool.Close(); closeRedis(rdb) }, nil
}

func isPooled(p config.Postgres) bool { return p.Pooler == "transaction" }

// openPool opens no connection yet.
func openPool(p config.Postgres, opts Options) (*pgxpool.Pool, error) {
	if p.URL == "" {
		return nil, errors.New("postgres.url is not set")
	}
	cfg, err := poolConfig(p, p.URL, opts)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(background, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the pool of connections: %w", err)
	}
	return pool, nil
}

func poolConfig(p config.Postgres, url config.Secret, opts Options) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url.Reveal())
	if err != nil {
		return nil, errors.New("postgres.url is not a connection string") // the driver's text may quote a password
	}
	cfg.MaxConns, cfg.MinConns = int32(p.MaxConns), 0
	cfg.ConnConfig.ConnectTimeout = p.ConnectTimeout
	cfg.ConnConfig.Tracer = opts.Tracer
	params := cfg.ConnConfig.RuntimeParams
	if params["application_name"] == "" {
		params["application_name"] = opts.Name
	}
	if params["application_name"] == "" {
		params["application_name"] = "weir"
	}
	if isPooled(p) {
		// No named statements: the next transaction may be on another server connection. And no statement_timeout: PgBouncer
		// refuses a startup parameter that it does not track. The client's own limit holds all the same.
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		return cfg, nil
	}
	if params["statement_timeout"] == "" {
		params["statement_timeout"] = strconv.FormatInt(p.StatementTimeout.Milliseconds(), 10)
	}
	return cfg, nil
}

func closeRedis(rdb redis.UniversalClient) {
	if rdb != nil {
		_ = rdb.Close() // nothing can be done about it, and nothing is lost
	}
}
