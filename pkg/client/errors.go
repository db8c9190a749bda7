package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

var (
	// ErrNotFound reports that there is no such job: it was never committed, or its retention is over.
	ErrNotFound = pgstore.ErrNotFound
	// ErrNoLimit reports that there is no such entry of limits.
	ErrNoLimit = errors.New("client: there is no such limit")
	// ErrClosed reports a call after Close.
	ErrClosed = errors.New("client: closed")
	// ErrReadOnly reports that the server took no writes until Config.Timeout was over: a standby, or a primary that was
	// demoted. Nothing was stored; it is worth trying again once the failover is done.
	ErrReadOnly = errors.New("client: the database is read-only")
)

// UnknownError reports that jobs may have been inserted: they were sent and the answer was lost, or the context ended
// while they were on their way. Enqueueing again with the same ids is safe.
type UnknownError struct {
	IDs []job.ID // of the call's jobs, in its order; in InTx's case those of its EnqueueTx calls
	Err error    // why the answer is not known; wraps the context's cause if that is the reason
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("client: %d jobs may have been inserted, enqueueing again with the same ids is safe: %v", len(e.IDs), e.Err)
}

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

// StateError reports that a job is in a state that does not allow what was asked for.
type StateError struct {
	ID    job.ID
	State job.State
}

func (e *StateError) Error() string { return fmt.Sprintf("client: job %s is %s", e.ID, e.State) }

// ended returns why ctx ended: its error, and the cause if somebody gave another.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// isUnknown reports whether what gave err may have been committed.
func isUnknown(err error) bool {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgstore.ErrNoSchema), errors.Is(err, pgstore.ErrClockAhead):
		return false // the server said that it stored nothing
	case errors.As(err, &pg) && pg.Code[:min(2, len(pg.Code))] == "08":
		return true // a pooler says so when it has lost the server, whatever that had done
	}
	return pgstore.IsUnknown(err)
}

// isConflict reports whether the server has rolled a transaction back since it crossed another's: a deadlock, or a conflict.
func isConflict(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40P01" || pg.Code == "40001")
}

// isTransient reports whether an error that stored nothing is worth another try with the same values.
func isTransient(err error) bool {
	var pg *pgconn.PgError
	if isConflict(err) {
		return true
	}
	if errors.As(err, &pg) {
		switch pg.Code {
		case "25006", // read-only: a failover is under way
			"53300",                            // too many connections
			"57P01", "57P02", "57P03", "57P05": // shutting down, starting up
			return true
		}
		return len(pg.Code) == 5 && pg.Code[:2] == "08"
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.SafeToRetry(err)
}

// isAway reports whether a read failed because the database could not be reached or gave no answer in time.
func isAway(err error) bool {
	var (
		pg  *pgconn.PgError
		net net.Error
	)
	if errors.As(err, &pg) || isTransient(err) {
		return isTransient(err)
	}
	return errors.As(err, &net) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) // of the statement's bound
}

// isRow reports whether one row of a batch may be the only cause of err: its values, or a trigger of the user's that
// refuses it.
func isRow(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && len(pg.Code) == 5 {
		switch pg.Code[:2] {
		case "P0", "09", "38", "39", "44":
			return true
		}
	}
	return pgstore.IsData(err)
}

// scrub takes out of a server's error what quotes the row, so that no payload ends in a log.
func scrub(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		pg.Detail, pg.Where, pg.InternalQuery = "", "", ""
	}
	if pgstore.IsReadOnly(err) {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return err
}
