package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/job"
)

// account asks the tables themselves how things stand. The demo is there to check Weir, so what it counts by does not go
// through Weir's code.
type account struct {
	pool   *pgxpool.Pool
	schema string
}

// standing is how the jobs of a queue stand.
type standing struct {
	completed int
	failed    int    // ended otherwise
	running   [2]int // claimed, by the process ids asked for
}

func (s standing) ended() int { return s.completed + s.failed }

func (a *account) query(ctx context.Context, sql string, args ...any) pgx.Row {
	return a.pool.QueryRow(ctx, fmt.Sprintf(sql, pgx.Identifier{a.schema}.Sanitize()), args...)
}

// standing counts the jobs of queue, and which of them the workers with these process ids hold.
func (a *account) standing(ctx context.Context, queue string, pids [2]int) (s standing, err error) {
	const sql = `
SELECT
  (SELECT count(*) FROM %[1]s.outcomes WHERE queue = $1),
  (SELECT count(*) FROM %[1]s.dead WHERE queue = $1),
  count(*) FILTER (WHERE s.pid = $2),
  count(*) FILTER (WHERE s.pid = $3)
FROM %[1]s.live AS l
JOIN %[1]s.sessions AS s ON s.id = l.session
WHERE l.state = 1
  AND l.queue = $1`
	err = a.query(ctx, sql, queue, int32(pids[0]), int32(pids[1])).
		Scan(&s.completed, &s.failed, &s.running[0], &s.running[1])
	if err != nil {
		return s, fmt.Errorf("count jobs: %w", err)
	}
	return s, nil
}

// isUp reports whether the worker or sweeper with this process id has registered.
func (a *account) isUp(ctx context.Context, pid int) (up bool, err error) {
	const sql = `SELECT EXISTS (SELECT FROM %[1]s.sessions WHERE pid = $1)`
	if err = a.query(ctx, sql, int32(pid)).Scan(&up); err != nil {
		return false, fmt.Errorf("look for process %d: %w", pid, err)
	}
	return up, nil
}

// leaseLeft returns how long the lease of the worker with this process id still lasts.
func (a *account) leaseLeft(ctx context.Context, pid int) (time.Duration, error) {
	const sql = `SELECT coalesce(extract(epoch FROM max(lease_until) - clock_timestamp()), 0)::float8 FROM %[1]s.sessions WHERE pid = $1`
	var seconds float64
	if err := a.query(ctx, sql, int32(pid)).Scan(&seconds); err != nil {
		return 0, fmt.Errorf("read the lease of process %d: %w", pid, err)
	}
	return max(time.Duration(seconds*float64(time.Second)), 0), nil
}

// recovered returns the jobs of queue that were taken from a dead process, each once.
func (a *account) recovered(ctx context.Context, queue string) ([]job.ID, error) {
	const sql = `
SELECT DISTINCT a.job_id
FROM %[1]s.attempts AS a
JOIN %[1]s.jobs AS j ON j.id = a.job_id
WHERE a.outcome = 'crashed'
  AND j.queue = $1`
	return a.ids(ctx, "list recovered jobs", sql, queue)
}

// outcomes returns the jobs of queue that completed, one entry for each outcome that was written.
func (a *account) outcomes(ctx context.Context, queue string) ([]job.ID, error) {
	return a.ids(ctx, "list completed jobs", `SELECT id FROM %[1]s.outcomes WHERE queue = $1`, queue)
}

// failures returns the jobs of queue that ended otherwise.
func (a *account) failures(ctx context.Context, queue string) ([]job.ID, error) {
	return a.ids(ctx, "list failed jobs", `SELECT id FROM %[1]s.dead WHERE queue = $1`, queue)
}

func (a *account) ids(ctx context.Context, what, sql, queue string) ([]job.ID, error) {
	rows, err := a.pool.Query(ctx, fmt.Sprintf(sql, pgx.Identifier{a.schema}.Sanitize()), queue)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	raw, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	ids := make([]job.ID, len(raw))
	for i := range raw {
		ids[i] = raw[i]
	}
	return ids, nil
}

// wal returns how many bytes of WAL the whole server has written since it was made.
func (a *account) wal(ctx context.Context) (bytes float64, err error) {
	if err = a.pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8`).Scan(&bytes); err != nil {
		return 0, fmt.Errorf("read the position of the WAL: %w", err)
	}
	return bytes, nil
}

// server returns what Postgres says of itself.
func (a *account) server(ctx context.Context) (version, fsync string, err error) {
	const sql = `SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('fsync')`
	if err = a.pool.QueryRow(ctx, sql).Scan(&version, &fsync); err != nil {
		return "", "", fmt.Errorf("ask Postgres for its version: %w", err)
	}
	return version, fsync, nil
}

// dropSchema removes the demo's schema from a server that is somebody's.
func (a *account) dropSchema() error {
	// The demo's own context may have ended. Its processes are gone; should a lock be left, better an error than a hang.
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error { // LOCAL: a pooler gives the connection to others
		_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '10s'; SET LOCAL client_min_messages = warning; DROP SCHEMA IF EXISTS `+
			pgx.Identifier{a.schema}.Sanitize()+` CASCADE`, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return fmt.Errorf("drop schema %s: %w", a.schema, err)
	}
	return nil
}
