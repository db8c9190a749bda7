package client

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// SQLTx is what EnqueueSQLTx needs of a transaction. *sql.Tx has it, and so have sqlx's, bun's and ent's transactions and
// GORM's tx.Statement.ConnPool. A *sql.DB or *sql.Conn has it too: then the job is committed at once.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

var (
	_ SQLTx = (*sql.Tx)(nil)
	_ SQLTx = (*sql.DB)(nil)
	_ SQLTx = (*sql.Conn)(nil)
)

// EnqueueSQLTx stores a job in the caller's transaction; see EnqueueTx. It sends text and numbers alone, so that any
// driver for Postgres will do.
func (c *Client) EnqueueSQLTx(ctx context.Context, tx SQLTx, args job.Args, options ...job.Options) (Enqueued, error) {
	if err := c.enter(); err != nil {
		return Enqueued{}, err
	}
	defer c.leave()
	ctx, end := c.traced(ctx, traceName(args), 1)
	e, err := c.enqueueSQL(ctx, tx, args, options)
	end([]Enqueued{e}, err)
	return e, err
}

func (c *Client) enqueueSQL(ctx context.Context, tx SQLTx, args job.Args, options []job.Options) (Enqueued, error) {
	d, err := c.draft(ctx, args, options...)
	if err != nil {
		return Enqueued{}, err
	}
	if ctx.Err() != nil {
		return Enqueued{}, fmt.Errorf("enqueue in transaction: %w", ended(ctx))
	}
	if err := c.learnSQL(ctx, tx); err != nil {
		return Enqueued{}, fmt.Errorf("enqueue in transaction: read the database clock: %w", scrub(err))
	}
	one := []draft{d}
	if err := c.mint(one); err != nil {
		return Enqueued{}, err
	}
	d = one[0]
	sent := time.Now()
	out, err := c.sendSQL(ctx, tx, d)
	if err != nil {
		return Enqueued{}, c.failedSQL(tx, d.job.ID, err)
	}
	c.clock.learn(out.Now, sent)
	if err := refused(one, out.Winners); err != nil {
		return Enqueued{}, err
	}
	var s sums
	s.add([]pgstore.NewJob{d.job}, &out)
	c.hints.announce([]pgstore.NewJob{d.job}, &out, true)
	return s.results(one)[0], nil
}

// learnSQL learns the clock's offset on tx itself if it is not known.
func (c *Client) learnSQL(ctx context.Context, tx SQLTx) error {
	if c.clock.known() {
		return nil
	}
	var micros int64
	sent := time.Now()
	if err := queryRow(ctx, tx, []any{&micros}, c.store.NowSQL()); err != nil {
		return err
	}
	c.clock.learn(time.UnixMicro(micros), sent)
	return nil
}

func (c *Client) sendSQL(ctx context.Context, tx SQLTx, d draft) (pgstore.Enqueued, error) {
	one := []pgstore.NewJob{d.job}
	if d.job.Unique != nil {
		return c.sendUniqueSQL(ctx, tx, one)
	}
	query, arg, err := c.store.EnqueueSQL(one)
	if err != nil {
		return pgstore.Enqueued{}, err
	}
	var (
		now, inserted int64
		least         *int64
		duplicates    *string
	)
	if err := queryRow(ctx, tx, []any{&now, &inserted, &least, &duplicates}, query, arg); err != nil {
		return pgstore.Enqueued{}, err
	}
	return pgstore.ScanEnqueued(now, inserted, least, duplicates)
}

func (c *Client) sendUniqueSQL(ctx context.Context, tx SQLTx, jobs []pgstore.NewJob) (pgstore.Enqueued, error) {
	query, args, err := c.store.EnqueueUniqueSQL(jobs)
	if err != nil {
		return pgstore.Enqueued{}, err
	}
	var a pgstore.UniqueAnswer
	if err := queryRow(ctx, tx, a.Targets(), query, args...); err != nil {
		return pgstore.Enqueued{}, err
	}
	return a.Enqueued(jobs)
}

// queryRow scans the one row of a query. SQLTx has no QueryRowContext: ent's transactions have none.
func queryRow(ctx context.Context, tx SQLTx, into []any, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return errors.Join(rows.Err(), errors.New("the server returned no row"))
	}
	if err := rows.Scan(into...); err != nil {
		return err
	}
	rows.Next() // to the end: an error may come after the row
	return errors.Join(rows.Err(), rows.Close())
}

// failedSQL says what an error of sendSQL means. In a transaction nothing is stored; without one a lost answer leaves it
// open.
func (c *Client) failedSQL(tx SQLTx, id job.ID, err error) error {
	state := sqlState(err)
	if state == "WE001" || errors.Is(pgstore.Classify(err), pgstore.ErrClockAhead) {
		c.clock.restart() // this transaction cannot be mended, the next one can
		return fmt.Errorf("enqueue in transaction: %w", pgstore.ErrClockAhead)
	}
	if state == "55P03" {
		return fmt.Errorf("enqueue in transaction: %w", ErrUndecided)
	}
	_, isTx := tx.(interface{ Commit() error })
	if !isTx && (state == "" || isUnknown(err)) {
		return &UnknownError{IDs: []job.ID{id}, Err: scrub(err)}
	}
	return fmt.Errorf("enqueue in transaction: %w", scrub(pgstore.Classify(err)))
}

// sqlState returns the code of a server's error, whichever driver brought it; empty if the server gave none.
func sqlState(err error) string {
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}
