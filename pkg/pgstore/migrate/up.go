package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// tries is how often Up tries when a table's lock is not to be had within Config.LockTimeout.
const tries = 10

// Up applies the versions that the schema does not have, and creates the schema before if need be. It returns those
// that this call applied, also beside an error; what another starter applied meanwhile is not among them. On a schema
// that has all of them it writes nothing and needs no right to.
//
// Each version is one transaction: it is there entirely or not at all. An *EnvironmentError means that the schema is
// another environment's and nothing was changed.
func Up(ctx context.Context, pool *pgxpool.Pool, cfg Config) (applied []int64, err error) {
	m, err := newMigrator(pool, cfg, known)
	if err != nil {
		return nil, err
	}
	return m.up(ctx)
}

type migrator struct {
	pool     *pgxpool.Pool
	cfg      Config
	versions []version
}

func newMigrator(pool *pgxpool.Pool, cfg Config, versions []version) (*migrator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &migrator{pool: pool, cfg: cfg, versions: versions}, nil
}

func (m *migrator) up(ctx context.Context) (applied []int64, err error) {
	for try := 1; ; try++ {
		var some []int64
		some, err = m.tryUp(ctx)
		applied = append(applied, some...)
		if err == nil || !isBusy(err) || try == tries {
			return applied, err
		}
		pause := time.Duration(try)*100*time.Millisecond + rand.N(100*time.Millisecond)
		select {
		case <-ctx.Done():
			return applied, errors.Join(ctx.Err(), err)
		case <-time.After(pause): // those whom our wait has held up get their turn
		}
	}
}

// isBusy reports whether err is about a lock that somebody else holds: not granted in time, or a deadlock.
func isBusy(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "40P01")
}

func (m *migrator) tryUp(ctx context.Context) ([]int64, error) {
	s, err := m.status(ctx)
	if err != nil {
		return nil, err
	}
	if s.Environment != "" { // an empty one is written below
		if err := m.checkEnvironment(s.Environment); err != nil {
			return nil, err
		}
	}
	if len(s.Pending) == 0 && m.checkEnvironment(s.Environment) == nil {
		return nil, nil
	}
	if err := m.prepare(ctx); err != nil {
		return nil, err
	}
	applied, err := m.apply(ctx)
	if err != nil {
		return applied, fmt.Errorf("migrate schema %q: %w", m.cfg.Schema, err)
	}
	return applied, nil
}

// prepare makes the schema and its table of versions, and puts the environment in if there is none. It returns an
// *EnvironmentError if another starter has said another one since we looked.
func (m *migrator) prepare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) error {
		for _, name := range []string{"settings", "table"} {
			if _, err := tx.Exec(ctx, text(name, m.cfg), simple); err != nil {
				return fmt.Errorf("create schema %q and its table of versions: %w", m.cfg.Schema, err)
			}
		}
		rows, err := tx.Query(ctx, text("list", m.cfg), simple)
		if err != nil {
			return fmt.Errorf("read the environment of schema %q: %w", m.cfg.Schema, err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[recorded])
		if err != nil {
			return fmt.Errorf("read the environment of schema %q: %w", m.cfg.Schema, err)
		}
		return m.checkEnvironment(stateOf(list, m.versions).Environment)
	})
}

// apply lets goose run what is pending.
func (m *migrator) apply(ctx context.Context) (applied []int64, err error) {
	db := stdlib.OpenDBFromPool(m.pool)
	defer func() { err = errors.Join(err, db.Close()) }() // its own goroutine; the pool stays open
	skipped := make(map[int64]bool)
	migrations := make([]*goose.Migration, len(m.versions))
	for i, v := range m.versions {
		run := func(ctx context.Context, tx *sql.Tx) error {
			was, err := m.applyOne(ctx, tx, v)
			skipped[v.number] = was
			return err
		}
		migrations[i] = goose.NewGoMigration(v.number, &goose.GoFunc{RunTx: run}, nil)
	}
	provider, err := goose.NewProvider(goose.DialectCustom, db, nil,
		goose.WithStore(store{m.cfg}), goose.WithGoMigrations(migrations...),
		goose.WithDisableGlobalRegistry(true)) // the program's own goose migrations are none of ours
	if err != nil {
		return nil, fmt.Errorf("set up goose: %w", err)
	}
	results, err := provider.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		results = partial.Applied
		err = fmt.Errorf("version %d: %w", partial.Failed.Source.Version, partial.Err)
	}
	for _, r := range results {
		if !skipped[r.Source.Version] {
			applied = append(applied, r.Source.Version)
		}
	}
	return applied, err
}

// applyOne runs one version in goose's transaction, which then records it. It reports whether there was nothing left
// to do: goose has read the list before we waited for the lock, and another starter may have held it.
func (m *migrator) applyOne(ctx context.Context, tx *sql.Tx, v version) (skipped bool, err error) {
	if _, err := tx.ExecContext(ctx, text("settings", m.cfg), simple); err != nil {
		return false, fmt.Errorf("take the migration lock: %w", err)
	}
	var micros int64
	err = tx.QueryRowContext(ctx, versionText("applied", m.cfg, v.number), simple).Scan(&micros)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("look whether it is applied: %w", err)
	}
	for _, statement := range v.texts(m.cfg) {
		if _, err := tx.ExecContext(ctx, statement, simple); err != nil {
			return false, fmt.Errorf("%s: %w", heading(statement), err)
		}
	}
	return false, nil
}
