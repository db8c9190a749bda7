package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// EnqueueTx stores a job in the caller's transaction: it exists exactly if tx commits, and starts after that. The hint to
// idle workers goes out after the commit within InTx, and otherwise at once, with workers looking again for two seconds;
// a job whose transaction takes longer starts by the sweeper's wake or the next poll. Wake is there to be sooner.
//
// A unique job whose key belongs to a transaction that is open waits for its end, as long as Config.Timeout lets it: two
// transactions that take two keys in opposite orders are a deadlock, which Postgres ends with an error for one of them.
//
// It must not be called at the same time as anything else on tx. After an error tx is to be rolled back, or back to a
// savepoint from before the call; nothing of the call is left then.
func (c *Client) EnqueueTx(ctx context.Context, tx pgx.Tx, args job.Args, options ...job.Options) (Enqueued, error) {
	if err := c.enter(); err != nil {
		return Enqueued{}, err
	}
	defer c.leave()
	ctx, end := c.traced(ctx, traceName(args), 1)
	e, err := c.enqueueOneTx(ctx, tx, args, options)
	end([]Enqueued{e}, err)
	return e, err
}

func (c *Client) enqueueOneTx(ctx context.Context, tx pgx.Tx, args job.Args, options []job.Options) (Enqueued, error) {
	d, err := c.draft(ctx, args, options...)
	if err != nil {
		return Enqueued{}, err
	}
	return first(c.enqueueTx(ctx, tx, []draft{d}))
}

// EnqueueManyTx stores up to 10,000 jobs in the caller's transaction; see EnqueueMany and EnqueueTx.
func (c *Client) EnqueueManyTx(ctx context.Context, tx pgx.Tx, jobs []job.Spec) ([]Enqueued, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	ctx, end := c.traced(ctx, "enqueue", len(jobs))
	got, err := c.enqueueAllTx(ctx, tx, jobs)
	end(got, err)
	return got, err
}

func (c *Client) enqueueAllTx(ctx context.Context, tx pgx.Tx, jobs []job.Spec) ([]Enqueued, error) {
	drafts, err := c.drafts(ctx, jobs)
	if err != nil || len(drafts) == 0 {
		return nil, err
	}
	return c.enqueueTx(ctx, tx, drafts)
}

func first(got []Enqueued, err error) (Enqueued, error) {
	if err != nil {
		return Enqueued{}, err
	}
	return got[0], nil
}

func (c *Client) enqueueTx(ctx context.Context, tx pgx.Tx, drafts []draft) ([]Enqueued, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("enqueue in transaction: %w", ended(ctx))
	}
	store := c.store.On(tx)
	if !c.clock.known() {
		// On tx itself: its caller may hold the last connection of the pool.
		sent := time.Now()
		now, err := store.Now(ctx)
		if err != nil {
			return nil, fmt.Errorf("enqueue in transaction: %w", scrub(err))
		}
		c.clock.learn(now, sent)
	}
	if err := c.mint(drafts); err != nil {
		return nil, err
	}
	waiting := c.announcementsOf(tx)
	hints := announcements{}
	var s sums
	for _, part := range batches(drafts) {
		sent := time.Now()
		out, err := put(ctx, store, part)
		if err != nil {
			if errors.Is(err, pgstore.ErrClockAhead) {
				c.clock.restart() // this transaction cannot be mended, the next one can
			}
			return nil, fmt.Errorf("enqueue in transaction: %w", scrub(err))
		}
		c.clock.learn(out.Now, sent)
		hints.collect(part, &out, waiting == nil)
		s.add(part, &out)
	}
	if err := refused(drafts, s.winners); err != nil {
		return nil, err
	}
	if waiting != nil {
		waiting.add(hints, idsOf(drafts), s.freed)
	} else {
		c.hints.wake(hints) // keys of replaced jobs are left to the sweeper: they are free when tx commits
	}
	return s.results(drafts), nil
}

// pending is what a transaction of InTx has to announce once it is committed.
type pending struct {
	mu    sync.Mutex
	hints announcements
	ids   []job.ID
	freed []string // keys to pass on
}

func (p *pending) add(hints announcements, ids []job.ID, freed []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids = append(p.ids, ids...)
	p.freed = append(p.freed, freed...)
	for key, h := range hints {
		if old, ok := p.hints[key]; ok {
			h.Count += old.Count
			h.ReadyAt = earliest(h.ReadyAt, old.ReadyAt)
		}
		p.hints[key] = h
	}
}

// announcementsOf returns what InTx announces for tx, or one of its savepoints; nil if tx is not InTx's.
func (c *Client) announcementsOf(tx pgx.Tx) *pending {
	conn := tx.Conn() // a savepoint and a wrapper have the transaction's
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[conn]
}

// InTx runs f in a transaction, commits it, and then wakes workers for what f put into it with EnqueueTx. If f returns
// an error, panics or calls runtime.Goexit it is rolled back, and so it is if ctx has ended by then.
//
// If the answer to the commit is lost, or ctx ends while it is under way, the error is an *UnknownError: everything f did
// may be committed or not. Other errors mean that nothing is.
func (c *Client) InTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	if ctx.Err() != nil {
		return fmt.Errorf("begin: %w", ended(ctx))
	}
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", scrub(err))
	}
	p := &pending{hints: announcements{}}
	conn := tx.Conn()
	c.expect(conn, p)
	isDone := false
	defer func() {
		if !isDone { // an error, a panic, or Goexit
			c.forget(conn, p)
			c.rollback(ctx, tx)
		}
	}()
	if err := f(tx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("commit: %w", ended(ctx))
	}
	isDone = true
	c.forget(conn, p) // before the commit gives the connection back: its next user is another
	return c.commit(ctx, tx, p)
}

func (c *Client) expect(conn *pgx.Conn, p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = p
}

func (c *Client) forget(conn *pgx.Conn, p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[conn] == p { // if f committed tx itself, the connection may be in another InTx by now
		delete(c.open, conn)
	}
}

// rollback gives the connection back in a state in which it can be used, also when ctx has ended.
func (c *Client) rollback(ctx context.Context, tx pgx.Tx) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(c.cfg.Timeout, time.Second))
	defer cancel()
	_ = tx.Rollback(own) // a connection on which that fails is closed, and the server rolls back
}

// commit is not cut off by the end of ctx: the caller goes, and the commit comes to its end, with its hints.
func (c *Client) commit(ctx context.Context, tx pgx.Tx, p *pending) error {
	done := make(chan error, 1)
	c.background(func() {
		own, cancel := c.own(ctx)
		defer cancel()
		isLost, err := commit(own, tx)
		switch {
		case isLost:
			err = &UnknownError{IDs: p.ids, Err: fmt.Errorf("commit: %w", scrub(err))}
		case err != nil:
			err = fmt.Errorf("commit: %w", scrub(err))
		default:
			c.hints.wake(p.hints)
			c.pass(ctx, p.freed)
		}
		done <- err
	})
	if err, ok := wait(ctx, done); ok {
		return err
	}
	return &UnknownError{IDs: p.ids, Err: fmt.Errorf("commit: %w", ended(ctx))}
}
