package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrSessionLost reports that this process' lease ended and its jobs may run elsewhere.
	ErrSessionLost = errors.New("pgstore: session lost")
	// ErrClockAhead reports ids from a clock more than 10 min ahead of the database's. Nothing was stored.
	ErrClockAhead = errors.New("pgstore: id more than 10 min ahead of the database clock")
	// ErrNoSchema reports that the schema or one of its functions is missing: it was not migrated, or is too old.
	ErrNoSchema = errors.New("pgstore: schema is missing or too old")
	// ErrNotFound reports that there is no such job.
	ErrNotFound = errors.New("pgstore: job not found")
)

// The SQLSTATEs that Weir's functions raise.
const (
	codeClockAhead  = "WE001"
	codeSessionLost = "WE002"
)

// Classify puts a sentinel beside an error from the driver where callers branch on it.
func Classify(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case codeClockAhead:
		return ErrClockAhead
	case codeSessionLost:
		return ErrSessionLost
	case "42883", "42P01", "3F000": // undefined function, table, schema
		return fmt.Errorf("%w: %w", ErrNoSchema, err)
	}
	return err
}

// IsData reports whether err is about the values of the statement: sending the same again gives the same error, and
// another row of the batch may be the cause.
func IsData(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && len(pg.Code) == 5 {
		switch pg.Code[:2] {
		case "22", "23": // data exception, integrity constraint
			return true
		}
		return pg.Code == "54000" || pg.Code == "54001" // program limit: index row size, stack depth
	}
	return false
}

// IsUnknown reports whether the statement that gave err may have been committed: its reply was lost. It is about single
// statements: of Tx.Commit, pgx 5 says "safe to retry" also when COMMIT was sent and its answer lost.
func IsUnknown(err error) bool {
	for _, known := range []error{nil, ErrClockAhead, ErrSessionLost, pgx.ErrTxClosed, pgx.ErrTxCommitRollback} {
		if errors.Is(err, known) {
			return false
		}
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// The server answered. Only a backend, or a pooler's connection to it, that ends in mid-commit leaves it open.
		return pg.Code == "57P01" || pg.Code == "57P02" || strings.HasPrefix(pg.Code, "08")
	}
	var connect *pgconn.ConnectError
	return !errors.As(err, &connect) && !pgconn.SafeToRetry(err)
}

// IsReadOnly reports whether err says that the server takes no writes: a standby, or a primary that was demoted. The
// connection is of no use: the next must be a fresh one.
func IsReadOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "25006"
}

// IsGone reports whether err is the end of ctx rather than the database's trouble.
func IsGone(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
