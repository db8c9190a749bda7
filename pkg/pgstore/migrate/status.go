package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// State is where a schema stands.
type State struct {
	Current     int64     // highest version applied; 0: none, or there is no such schema
	Latest      int64     // the version to which Up of this binary goes
	Pending     []int64   // what Up would apply, in order
	Environment string    // empty: nobody has said one
	Applied     []Applied // in order
}

// Applied is a version that a schema has. It may be newer than this binary.
type Applied struct {
	Version int64
	At      time.Time // on the database clock
}

// Status reads where a schema stands. It changes nothing; a schema that is not there is at version 0.
func Status(ctx context.Context, pool *pgxpool.Pool, cfg Config) (State, error) {
	m, err := newMigrator(pool, cfg, known)
	if err != nil {
		return State{}, err
	}
	return m.status(ctx)
}

func (m *migrator) status(ctx context.Context) (State, error) {
	var exists bool
	if err := m.pool.QueryRow(ctx, text("exists", m.cfg), simple).Scan(&exists); err != nil {
		return State{}, fmt.Errorf("look for schema %q: %w", m.cfg.Schema, err)
	}
	var rows []recorded
	if exists {
		answer, err := m.pool.Query(ctx, text("list", m.cfg), simple)
		if err == nil {
			rows, err = pgx.CollectRows(answer, pgx.RowToStructByPos[recorded])
		}
		if err != nil {
			return State{}, fmt.Errorf("read the versions of schema %q: %w", m.cfg.Schema, err)
		}
	}
	return stateOf(rows, m.versions), nil
}

// recorded is a row of the table of versions.
type recorded struct {
	Version     int64
	Micros      int64 // since 1970
	Environment string
}

// stateOf compares the rows, the latest first, with the versions of this binary.
func stateOf(rows []recorded, versions []version) State {
	s := State{Latest: versions[len(versions)-1].number}
	has := make(map[int64]bool, len(rows))
	for i := len(rows) - 1; i >= 0; i-- {
		row := rows[i]
		if row.Version == 0 {
			s.Environment = row.Environment
			continue
		}
		has[row.Version] = true
		s.Current = max(s.Current, row.Version)
		s.Applied = append(s.Applied, Applied{Version: row.Version, At: time.UnixMicro(row.Micros).UTC()})
	}
	for _, v := range versions {
		if !has[v.number] {
			s.Pending = append(s.Pending, v.number)
		}
	}
	return s
}
