package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

// How often a database that is away is asked again.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 2 * time.Second
)

// SchemaConfig returns what package migrate needs to know of cfg.
func SchemaConfig(cfg config.Config) (migrate.Config, error) {
	width, err := pgstore.ParseWidth(cfg.Sweeper.Partitions.Every)
	if err != nil {
		return migrate.Config{}, fmt.Errorf("sweeper.partitions.every: %w", err)
	}
	return migrate.Config{
		Schema: cfg.Namespace, Environment: cfg.Environment, Partitions: width, Ahead: cfg.Sweeper.Partitions.Ahead,
	}, nil
}

// CheckSchema tells whether a process of cfg may work on the schema: a *migrate.VersionError or *migrate.EnvironmentError if
// not, another error if it could not be read. It asks once.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool, cfg config.Config) error {
	m, err := SchemaConfig(cfg)
	if err != nil {
		return err
	}
	return migrate.Check(ctx, pool, m)
}

// AwaitSchema does at a process' start what cfg.Postgres.Schema says: it checks the schema's version, brings it up, or leaves
// it alone. While Postgres is away it tries on, and logs when that begins, changes and ends. The error is ctx's, or says why
// the schema is of no use to this process.
func AwaitSchema(ctx context.Context, pool *pgxpool.Pool, l *config.Loaded, log *slog.Logger) error {
	limit := l.Config.Postgres.ConnectTimeout + l.Config.Postgres.StatementTimeout
	step := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limit) // a half-open connection must not hold the start for ever
		defer cancel()
		return CheckSchema(ctx, pool, l.Config)
	}
	switch l.Config.Postgres.Schema {
	case "off":
		return nil
	case "migrate":
		step = func(ctx context.Context) error { return bringUp(ctx, l.Config, log) }
	}
	told := ""
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := step(ctx)
		switch {
		case err == nil && told != "":
			log.Info("postgres answers")
			return nil
		case err == nil, ctx.Err() != nil:
			return err
		case !isAway(err):
			return err
		}
		if text := Explain(err, l); text != told {
			told = text
			log.Warn("waiting for postgres", "error", text)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// bringUp migrates on connections of its own, without statement_timeout: a version may take its time.
func bringUp(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	applied, err := Migrate(ctx, cfg)
	if len(applied) > 0 {
		log.Info("schema migrated", "schema", cfg.Namespace, "versions", applied)
	}
	return err
}

// Migrate brings the schema of cfg up and returns the versions that it applied.
func Migrate(ctx context.Context, cfg config.Config) (applied []int64, err error) {
	m, err := SchemaConfig(cfg)
	if err != nil {
		return nil, err
	}
	p := cfg.Postgres
	c, err := poolConfig(p, p.URL, Options{Name: "weir-migrate"})
	if err != nil {
		return nil, err
	}
	delete(c.ConnConfig.RuntimeParams, "statement_timeout")
	pool, err := pgxpool.NewWithConfig(background, c)
	if err != nil {
		return nil, fmt.Errorf("open the pool of connections: %w", err)
	}
	defer pool.Close()
	return migrate.Up(ctx, pool, m)
}

// isAway reports whether err may pass when the server comes back, or comes to itself.
func isAway(err error) bool {
	var (
		version     *migrate.VersionError
		environment *migrate.EnvironmentError
		pg          *pgconn.PgError
	)
	switch {
	case errors.As(err, &version), errors.As(err, &environment):
		return false
	case IsUnreachable(err):
		return true // also a password that is refused: a pooler or a secret may be on its way
	case errors.As(err, &pg):
		switch pg.Code[:min(2, len(pg.Code))] {
		case "08", "53", "57":
			return true
		}
		return pg.Code == "25006" // read-only: a failover is under way
	}
	return true // a connection that broke, or a time that ran out
}
