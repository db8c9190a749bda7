package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

// Namespace returns a fresh name, "t_" and twelve random letters and digits, for a Postgres schema and a Redis prefix.
// When the test ends, the schema is dropped with all in it and the keys that contain the name are deleted, from the
// shared servers and from those that the environment names, if the test process used them.
//
// What uses the schema must be registered for clean-up after this call, so that it is over before the schema goes.
func Namespace(tb testing.TB) string {
	tb.Helper()
	name := "t_" + strings.ToLower(rand.Text()[:12])
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		pgURL, redisURL := sharedURLs()
		if err := dropSchema(ctx, pgURL, name); err != nil {
			tb.Error(err)
		}
		if err := deleteKeys(ctx, redisURL, name); err != nil {
			tb.Error(err)
		}
	})
	return name
}

// sharedURLs returns the shared servers' URLs; empty where none is set or started.
func sharedURLs() (pgURL, redisURL string) {
	pgURL = firstEnv("WEIR_TEST_POSTGRES_URL", "WEIR_POSTGRES_URL")
	redisURL = firstEnv("WEIR_TEST_REDIS_URL", "WEIR_REDIS_URL")
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if pgURL == "" && shared.postgres != nil {
		pgURL = shared.postgres.URL()
	}
	if redisURL == "" && shared.redis != nil {
		redisURL = shared.redis.URL()
	}
	return pgURL, redisURL
}

func dropSchema(ctx context.Context, url, name string) error {
	if url == "" {
		return nil
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("drop schema %s: %w", name, err)
	}
	defer conn.Close(ctx)
	// A transaction that the test left open holds the drop up: better an error here than a test process that hangs.
	// A process that a test has killed may still have a statement under way: of a deadlock with it one round is the victim.
	for range 3 {
		_, err = conn.Exec(ctx, `SET lock_timeout = '10s'; SET client_min_messages = warning; DROP SCHEMA IF EXISTS `+
			pgx.Identifier{name}.Sanitize()+` CASCADE`, pgx.QueryExecModeSimpleProtocol)
		if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "40P01" {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("drop schema %s: %w", name, err)
	}
	return nil
}

func deleteKeys(ctx context.Context, url, name string) error {
	if url == "" {
		return nil
	}
	opt, err := redis.ParseURL(url)
	if err != nil {
		return fmt.Errorf("delete keys of %s: %w", name, err)
	}
	c := redis.NewClient(opt)
	defer c.Close()
	var cursor uint64
	for {
		var keys []string
		if keys, cursor, err = c.Scan(ctx, cursor, "*"+name+"*", 1000).Result(); err != nil {
			return fmt.Errorf("find keys of %s: %w", name, err)
		}
		if len(keys) > 0 {
			if err := c.Unlink(ctx, keys...).Err(); err != nil {
				return fmt.Errorf("delete keys of %s: %w", name, err)
			}
		}
		if cursor == 0 {
			return nil
		}
	}
}
