package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/embedded"
)

// servers are private: a Postgres with its defaults (fsync on), a Redis for Weir's hints and asynq, and one that syncs
// each write, for asynq. All peers share the pool.
type servers struct {
	pg            *embedded.Postgres
	pool          *pgxpool.Pool
	redis         redis.UniversalClient // Weir's
	plain, synced redis.UniversalClient
	info          []string
	closers       []func()
	schemas       int
	statements    bool // pg_stat_statements counts
}

func start(ctx context.Context) (s *servers, err error) {
	s = &servers{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.startPostgres(ctx); err != nil {
		return nil, err
	}
	var version string
	for _, c := range []*redis.UniversalClient{&s.redis, &s.plain, &s.synced} {
		if *c, version, err = s.startRedis(ctx); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]string{"appendonly": "yes", "appendfsync": "always"} {
		if err := s.synced.ConfigSet(ctx, name, value).Err(); err != nil {
			return nil, fmt.Errorf("redis: %s: %w", name, err)
		}
	}
	s.info = append(s.info, "redis "+version, fmt.Sprintf("%d CPUs", runtime.NumCPU()), runtime.Version())
	return s, nil
}

func (s *servers) startPostgres(ctx context.Context) error {
	// Its own extension counts statements; where it is not installed those figures are left out.
	pg, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Settings: map[string]string{
		"shared_preload_libraries": "pg_stat_statements",
	}})
	s.statements = err == nil
	if err != nil {
		pg, err = embedded.StartPostgres(ctx, embedded.PostgresConfig{})
	}
	if err != nil {
		return err
	}
	s.pg = pg
	s.closers = append(s.closers, func() { _ = pg.Close() })
	cfg, err := pgxpool.ParseConfig(pg.URL())
	if err != nil {
		return err
	}
	cfg.MaxConns = 32
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	s.closers = append(s.closers, s.pool.Close)
	if s.statements {
		_, err := s.pool.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
		s.statements = err == nil
	}
	s.info = append(s.info, "postgres "+pg.Version()+", fsync on, default settings")
	return nil
}

func (s *servers) startRedis(ctx context.Context) (redis.UniversalClient, string, error) {
	r, err := embedded.StartRedis(ctx, embedded.RedisConfig{})
	if err != nil {
		return nil, "", err
	}
	s.closers = append(s.closers, func() { _ = r.Close() })
	opts, err := redis.ParseURL(r.URL())
	if err != nil {
		return nil, "", err
	}
	opts.PoolSize = 64
	c := redis.NewClient(opts)
	s.closers = append(s.closers, func() { _ = c.Close() })
	return c, r.Version() + " (" + r.Kind() + ")", nil
}

func (s *servers) close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
}

// schema returns a new name.
func (s *servers) schema(peer string) string {
	s.schemas++
	return fmt.Sprintf("%s_%d_%d", peer, os.Getpid(), s.schemas)
}

func (s *servers) drop(schema string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.pool.Exec(ctx, fmt.Sprintf("DROP SCHEMA %q CASCADE", schema)); err != nil {
		fmt.Fprintln(os.Stderr, "bench: drop", schema, err)
	}
}

func (s *servers) count(ctx context.Context, sql string) (n int64, err error) {
	err = s.pool.QueryRow(ctx, sql).Scan(&n)
	return n, err
}

// settle lets the server write out what the round before left behind, so that it does not fall into the next one.
func (s *servers) settle(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "CHECKPOINT")
	return err
}
