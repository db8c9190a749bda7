package sweeper

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirq/weir/pkg/pgstore"
)

// lane lets one statement through at a time. A sweeper has three, so it uses three connections at most, and a slow
// duty holds up neither the heartbeat and recover nor wake.
type lane struct {
	db   pgstore.Querier
	turn chan struct{} // full while a statement is under way
}

func newLane(db pgstore.Querier) *lane { return &lane{db: db, turn: make(chan struct{}, 1)} }

func (l *lane) enter(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *lane) leave() { <-l.turn }

// Exec waits for the lane and runs a statement.
func (l *lane) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := l.enter(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	defer l.leave()
	return l.db.Exec(ctx, sql, args...)
}

// Query waits for the lane and holds it until the rows are closed.
func (l *lane) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	rows, err := l.db.Query(ctx, sql, args...)
	if err != nil {
		l.leave()
		return nil, err
	}
	return &laneRows{Rows: rows, leave: sync.OnceFunc(l.leave)}, nil
}

// QueryRow waits for the lane and holds it until the row is scanned.
func (l *lane) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := l.enter(ctx); err != nil {
		return failedRow{err}
	}
	return &laneRow{row: l.db.QueryRow(ctx, sql, args...), leave: l.leave}
}

type laneRows struct {
	pgx.Rows
	leave func()
}

// Close gives back the connection, then the lane.
func (r *laneRows) Close() {
	r.Rows.Close()
	r.leave()
}

type laneRow struct {
	row   pgx.Row
	leave func()
}

// Scan reads the row and gives back the connection, then the lane.
func (r *laneRow) Scan(dest ...any) error {
	defer r.leave()
	return r.row.Scan(dest...)
}

type failedRow struct{ err error }

// Scan returns why there is no row.
func (r failedRow) Scan(...any) error { return r.err }
