package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/pgstore"
)

// busyError reports that the pool had no connection in time.
type busyError struct{ err error }

func (e *busyError) Error() string { return "no connection came free in time: " + e.err.Error() }
func (e *busyError) Unwrap() error { return e.err }

func isBusy(err error) bool {
	var busy *busyError
	return errors.As(err, &busy)
}

// acquire takes a connection from the pool, waiting until deadline. It is a step of its own so that its failure is known
// to have sent nothing.
func (c *Client) acquire(ctx context.Context, deadline time.Time) (*pgxpool.Conn, error) {
	bounded, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	conn, err := c.pool.Acquire(bounded)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ended(ctx)
	case bounded.Err() != nil && !isTransient(err):
		err = &busyError{err}
	}
	return nil, fmt.Errorf("acquire a connection: %w", err)
}

// resets bounds how often the pool is reset.
type resets struct{ last atomic.Int64 } // nanoseconds since 1970, local

const resetEvery = 5 * time.Second

// retire takes a connection to a read-only server out of use. The others of the pool most likely lead to the same server,
// and pgxpool cannot tell: they are closed too as they come back. But not at every failure, or a database that is
// read-only on purpose would make the application's pool reconnect without end.
func (c *Client) retire(conn *pgxpool.Conn, err error) {
	if !pgstore.IsReadOnly(err) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Conn().Close(ctx) // the pool drops a closed connection when it is released
	now, last := time.Now().UnixNano(), c.resets.last.Load()
	if now-last > int64(resetEvery) && c.resets.last.CompareAndSwap(last, now) {
		c.pool.Reset()
	}
}

// commit commits tx. isLost means that COMMIT was sent and its answer was not read.
func commit(ctx context.Context, tx pgx.Tx) (isLost bool, err error) {
	wasOpen := !tx.Conn().IsClosed()
	err = tx.Commit(ctx)
	// When the connection breaks while it waits for the answer to a simple query, which COMMIT is, pgx 5.12 says "conn
	// closed" and that this is safe to retry, as if nothing had been sent.
	return isUnknown(err) || wasOpen && errors.Is(err, pgconn.ErrConnClosed), err
}

// wait returns what comes from done; false if ctx ends first.
func wait[T any](ctx context.Context, done <-chan T) (v T, ok bool) {
	select {
	case v = <-done:
		return v, true
	case <-ctx.Done():
	}
	select {
	case v = <-done: // both at once: what is known is worth more
		return v, true
	default:
		return v, false
	}
}
