package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3/database"
)

// store is goose's view of the table of versions. What goose asks of it is safe beside other starters: the table and
// its rows are made under the lock, and a version that is recorded already is not an error.
type store struct {
	cfg Config
}

var _ database.StoreExtender = store{}

// Tablename returns the table's name for goose's messages.
func (s store) Tablename() string { return s.cfg.Schema + ".migrations" }

// TableExists keeps goose from making the table outside our lock.
func (s store) TableExists(ctx context.Context, db database.DBTxConn) (exists bool, err error) {
	if err = db.QueryRowContext(ctx, text("exists", s.cfg), simple).Scan(&exists); err != nil {
		return false, fmt.Errorf("look for the table of versions: %w", err)
	}
	return exists, nil
}

// CreateVersionTable makes the schema and the table in goose's transaction. Up has made them before; this is for a
// schema that was dropped at that moment.
func (s store) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	for _, name := range []string{"settings", "table"} {
		if _, err := db.ExecContext(ctx, text(name, s.cfg), simple); err != nil {
			return fmt.Errorf("create the table of versions: %w", err)
		}
	}
	return nil
}

// Insert records a version.
func (s store) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	if _, err := db.ExecContext(ctx, versionText("record", s.cfg, req.Version), simple); err != nil {
		return fmt.Errorf("record version %d: %w", req.Version, err)
	}
	return nil
}

// Delete refuses: there are no down migrations, since a version only adds.
func (s store) Delete(context.Context, database.DBTxConn, int64) error { return errors.ErrUnsupported }

// GetMigration returns when a version was applied.
func (s store) GetMigration(ctx context.Context, db database.DBTxConn, number int64) (*database.GetMigrationResult, error) {
	var micros int64
	err := db.QueryRowContext(ctx, versionText("applied", s.cfg, number), simple).Scan(&micros)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: %d", database.ErrVersionNotFound, number)
	}
	if err != nil {
		return nil, fmt.Errorf("read version %d: %w", number, err)
	}
	return &database.GetMigrationResult{Timestamp: time.UnixMicro(micros), IsApplied: true}, nil
}

// GetLatestVersion returns the highest version.
func (s store) GetLatestVersion(ctx context.Context, db database.DBTxConn) (int64, error) {
	list, err := s.ListMigrations(ctx, db)
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return 0, database.ErrVersionNotFound
	}
	return list[0].Version, nil
}

// ListMigrations returns all versions, the highest first.
func (s store) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	rows, err := db.QueryContext(ctx, text("list", s.cfg), simple)
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	defer rows.Close()
	var list []*database.ListMigrationsResult
	for rows.Next() {
		r := &database.ListMigrationsResult{IsApplied: true}
		if err := rows.Scan(&r.Version, new(any), new(any)); err != nil {
			return nil, fmt.Errorf("list versions: %w", err)
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	return list, nil
}
