package run

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// contact watches the statements of this process, those of the worker's own connections included: their pools are copies of
// ours. So health checks know when something was last tried and when the server last answered, and ask it nothing. All
// instants are of the local monotonic clock.
type contact struct {
	born time.Time

	tried, answered            atomic.Int64 // ns since born; zero: never
	statements, refused, fails atomic.Int64 // statements sent; ended by an error of the server; connections that failed

	mu   sync.Mutex
	last error // of the last connection that failed
}

func newContact() *contact { return &contact{born: time.Now()} }

// TraceQueryStart implements pgx.QueryTracer.
func (c *contact) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	c.touch(&c.tried)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *contact) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	var pg *pgconn.PgError
	switch {
	case data.Err == nil:
		c.touch(&c.answered)
	case errors.As(data.Err, &pg):
		c.refused.Add(1)
		c.touch(&c.answered)
	}
}

// TraceConnectStart implements pgx.ConnectTracer.
func (c *contact) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	c.touch(&c.tried)
	return ctx
}

// TraceConnectEnd implements pgx.ConnectTracer.
func (c *contact) TraceConnectEnd(_ context.Context, data pgx.TraceConnectEndData) {
	if data.Err == nil {
		c.touch(&c.answered)
		return
	}
	c.fails.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = data.Err
}

func (c *contact) touch(at *atomic.Int64) { at.Store(int64(time.Since(c.born)) + 1) }

// sinceTried returns how long ago something was last tried; since the start if nothing was.
func (c *contact) sinceTried() time.Duration {
	return time.Since(c.born) - time.Duration(c.tried.Load())
}

// sinceAnswer returns how long ago the server last answered; since the start if it never did.
func (c *contact) sinceAnswer() time.Duration {
	return time.Since(c.born) - time.Duration(c.answered.Load())
}

func (c *contact) self() *contact { return c }
