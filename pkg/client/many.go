package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// EnqueueMany stores up to 10,000 jobs, all or none, and returns once they are committed; the results are in the order
// of jobs. It is the fastest way to enqueue: a statement takes 1,000 jobs or 4 MiB.
//
// A *job.FieldError and a *DuplicateError name the job in Index. ctx and *UnknownError are as in Enqueue. Config.Timeout bounds each
// statement, not the call.
func (c *Client) EnqueueMany(ctx context.Context, jobs []job.Spec) ([]Enqueued, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	ctx, end := c.traced(ctx, "enqueue", len(jobs))
	got, err := c.enqueueMany(ctx, jobs)
	end(got, err)
	return got, err
}

func (c *Client) enqueueMany(ctx context.Context, jobs []job.Spec) ([]Enqueued, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("enqueue: %w", ended(ctx))
	}
	drafts, err := c.drafts(ctx, jobs)
	if err != nil || len(drafts) == 0 {
		return nil, err
	}
	return c.sendMany(ctx, drafts)
}

// sendMany stores drafts, all or none.
func (c *Client) sendMany(ctx context.Context, drafts []draft) ([]Enqueued, error) {
	if err := c.ready(ctx, drafts); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(c.cfg.Timeout)
	isReminted := false
	var last error
	for failures := 0; ; failures++ {
		got, err := c.tryMany(ctx, drafts, deadline)
		if err == nil {
			return got, nil
		}
		var (
			unknown   *UnknownError
			duplicate *DuplicateError
		)
		if errors.As(err, &duplicate) {
			return nil, duplicate
		}
		if errors.As(err, &unknown) {
			return nil, err
		}
		if last != nil && isBusy(err) { // the time went by on something else
			err = last
		}
		last = err
		if errors.Is(err, pgstore.ErrClockAhead) && !isReminted {
			isReminted = true
			if err := c.ready(ctx, drafts); err != nil { // nothing was stored: ids are made anew
				return nil, err
			}
			continue
		}
		if !isTransient(err) || !time.Now().Before(deadline) {
			return nil, fmt.Errorf("enqueue %d jobs: %w", len(drafts), scrub(err))
		}
		if !pause(ctx, backoff(failures)) {
			return nil, fmt.Errorf("enqueue %d jobs: %w; before that: %w", len(drafts), ended(ctx), scrub(err))
		}
		sentBefore(drafts)
	}
}

// answer is what a call's statements came to.
type answer struct {
	results []Enqueued
	err     error
}

// tryMany makes one attempt. An *UnknownError apart, its errors mean that nothing was stored.
func (c *Client) tryMany(ctx context.Context, drafts []draft, deadline time.Time) ([]Enqueued, error) {
	leave, err := c.gate.pass(ctx, drafts, deadline)
	if err != nil {
		return nil, err
	}
	conn, err := c.acquire(ctx, deadline)
	if err != nil {
		leave()
		return nil, err
	}
	// The statements outlive a caller that goes: to cut one off costs a connection, and many callers that go would
	// open more than the pool allows.
	done := make(chan answer, 1)
	parts := batches(drafts)
	c.background(func() {
		defer leave()
		defer conn.Release()
		var a answer
		if len(parts) == 1 && !isRefusing(drafts) {
			a = c.sendOne(ctx, conn, drafts, parts[0])
		} else {
			a = c.sendParts(ctx, conn, drafts, parts)
		}
		c.retire(conn, a.err)
		done <- a
	})
	if a, ok := wait(ctx, done); ok {
		return a.results, a.err
	}
	return nil, &UnknownError{IDs: idsOf(drafts), Err: ended(ctx)}
}

// unsent says what an error of a statement means that was its own transaction.
func (c *Client) unsent(drafts []draft, err error) answer {
	switch {
	case errors.Is(err, pgstore.ErrClockAhead):
		c.clock.restart()
	case isUnknown(err):
		err = &UnknownError{IDs: idsOf(drafts), Err: scrub(err)}
	}
	return answer{err: err}
}

// sendParts stores what needs several statements, in one transaction. Until COMMIT is sent nothing can have been stored,
// whatever happens to the connection.
func (c *Client) sendParts(ctx context.Context, conn *pgxpool.Conn, drafts []draft, parts [][]pgstore.NewJob) answer {
	own, cancel := c.own(ctx)
	tx, err := conn.Begin(own)
	cancel()
	if err != nil {
		return answer{err: lost(err)}
	}
	var s sums
	hints := announcements{}
	if err = c.sendAll(ctx, tx, parts, &s, hints); err == nil {
		err = refused(drafts, s.winners)
	}
	own, cancel = c.own(ctx)
	defer cancel()
	if err != nil {
		_ = tx.Rollback(own) // a connection on which that fails is closed, and the server rolls back
		return answer{err: lost(err)}
	}
	if isLost, err := commit(own, tx); isLost {
		return answer{err: &UnknownError{IDs: idsOf(drafts), Err: fmt.Errorf("commit: %w", scrub(err))}}
	} else if err != nil {
		return answer{err: fmt.Errorf("commit: %w", err)}
	}
	c.hints.wake(hints)
	c.pass(ctx, s.freed)
	return answer{results: s.results(drafts)}
}

func (c *Client) sendAll(ctx context.Context, tx pgx.Tx, parts [][]pgstore.NewJob, s *sums, hints announcements) error {
	store := c.store.On(tx)
	for _, part := range parts {
		if ctx.Err() != nil { // the caller has gone: it need not wait to learn that nothing was stored
			return ended(ctx)
		}
		sent := time.Now()
		out, err := put(context.WithoutCancel(ctx), store, part)
		if err != nil {
			if errors.Is(err, pgstore.ErrClockAhead) {
				c.clock.restart()
			}
			return err
		}
		c.clock.learn(out.Now, sent)
		hints.collect(part, &out, false)
		s.add(part, &out)
	}
	return nil
}

// lostError is a connection that broke before anything could be committed.
type lostError struct{ err error }

func (e *lostError) Error() string     { return e.err.Error() }
func (e *lostError) Unwrap() error     { return e.err }
func (e *lostError) SafeToRetry() bool { return true }

// lost marks an error of a transaction whose COMMIT was not sent.
func lost(err error) error {
	if isUnknown(err) {
		return &lostError{err}
	}
	return err
}
