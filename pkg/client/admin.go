package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// maxNamed is how many cancelled jobs are named to the workers one by one; for more of them one message says "look at
// all of yours".
const maxNamed = 16

// Cancel ends jobs as cancelled. One that runs is asked to stop: its context ends with job.ErrCancelled, and it ends as
// its handler says, or as cancelled when that fails. To cancel a job that has ended changes nothing and is no error.
// For ids without a job the error is ErrNotFound; the others are cancelled all the same.
func (c *Client) Cancel(ctx context.Context, ids ...job.ID) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	var errs []error
	for _, part := range parts(ids) {
		live, err := c.cancel(ctx, part)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		var rest []job.ID
		for _, id := range part {
			if _, ok := live[id]; !ok {
				rest = append(rest, id)
			}
		}
		errs = append(errs, c.missing(ctx, rest)...)
	}
	return errors.Join(errs...)
}

func (c *Client) cancel(ctx context.Context, ids []job.ID) (live map[job.ID]job.ID, err error) {
	var (
		freed []string
		rates []reservation
	)
	err = c.act(ctx, "cancel", targetOf(ids), func(store *pgstore.Store) (int, error) {
		if rates, err = c.reserved(ctx, store, ids); err != nil {
			return 0, err
		}
		live, freed, err = store.Cancel(ctx, ids, "cancelled by "+c.actor())
		return len(live), err
	})
	if err != nil {
		return nil, err
	}
	c.pass(ctx, freed)
	c.unreserve(ctx, rates, func(id job.ID) bool {
		session, ok := live[id]
		return ok && session.IsZero()
	})
	var running []job.ID
	for id, session := range live {
		if !session.IsZero() {
			running = append(running, id)
		}
	}
	if len(running) > maxNamed {
		running = []job.ID{{}}
	}
	for _, id := range running {
		control := coord.Control{Verb: "cancel"}
		if !id.IsZero() {
			control.ID = id.String()
		}
		c.publish(ctx, control)
	}
	return live, nil
}

// missing returns an error for each of ids, none of which is live, that has not ended either.
func (c *Client) missing(ctx context.Context, ids []job.ID) (errs []error) {
	if len(ids) == 0 {
		return nil
	}
	ends, err := c.store.Outcomes(ctx, ids)
	if err != nil {
		return []error{err}
	}
	for _, id := range ids {
		if _, ok := ends[id]; ok {
			continue
		}
		if _, err := c.store.Job(ctx, id); err != nil { // it may have been retried by hand just now
			errs = append(errs, fmt.Errorf("cancel job %s: %w", id, err))
		}
	}
	return errs
}

// Retry makes a job due now: one that was discarded, cancelled or expired, under the same id and with all its attempts
// anew, or one that waits for a retry or for its time. For a job that is due already nothing changes. The error is ErrNotFound if
// there is no such job, a *StateError if it runs or has completed, and a *DuplicateError if it is dead and a live job has its
// unique key.
func (c *Client) Retry(ctx context.Context, id job.ID) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	n, winner, err := c.retry(ctx, []job.ID{id})
	switch {
	case err != nil || n == 1:
		return err
	case !winner.IsZero():
		return fmt.Errorf("retry job %s: %w", id, &DuplicateError{ID: winner})
	}
	row, err := c.store.Job(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("retry job %s: %w", id, err)
	case row.State == job.Available:
		return nil
	}
	return fmt.Errorf("retry: %w", &StateError{ID: id, State: row.State})
}

// retry returns how many jobs are due now, and a live job that has the unique key of one that is not.
func (c *Client) retry(ctx context.Context, ids []job.ID) (n int, winner job.ID, err error) {
	var revived []pgstore.Revived
	err = c.act(ctx, "retry", targetOf(ids), func(store *pgstore.Store) (int, error) {
		revived, winner = nil, job.ID{}
		all, err := store.Revive(ctx, ids)
		for _, r := range all {
			if r.Winner.IsZero() {
				revived = append(revived, r)
			} else {
				winner = r.Winner
			}
		}
		return len(revived), err
	})
	if err != nil {
		return 0, job.ID{}, err
	}
	c.hints.wakeRevived(revived)
	return len(revived), winner, nil
}

// Delete forgets a job, with its payload, outcome and attempts. The error is ErrNotFound if there is none and a
// *StateError if it runs: cancel it first.
func (c *Client) Delete(ctx context.Context, id job.ID) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	n, err := c.remove(ctx, []job.ID{id})
	if err != nil || n == 1 {
		return err
	}
	row, err := c.store.Job(ctx, id)
	if err != nil {
		return fmt.Errorf("delete job %s: %w", id, err)
	}
	return fmt.Errorf("delete: %w", &StateError{ID: id, State: row.State})
}

func (c *Client) remove(ctx context.Context, ids []job.ID) (n int, err error) {
	var (
		gone  map[job.ID]bool
		freed []string
		rates []reservation
	)
	err = c.act(ctx, "delete", targetOf(ids), func(store *pgstore.Store) (int, error) {
		if rates, err = c.reserved(ctx, store, ids); err != nil {
			return 0, err
		}
		gone, freed, err = store.Delete(ctx, ids)
		return len(gone), err
	})
	if err != nil {
		return 0, err
	}
	c.pass(ctx, freed)
	c.unreserve(ctx, rates, func(id job.ID) bool { return gone[id] })
	return len(gone), nil
}

// actTries is how often something by hand is tried that deadlocks and conflicts roll back.
const actTries = 10

// act does something by hand and writes down who did it, both or neither. What a deadlock or a conflict has rolled back is
// done again: docs/decisions/0017 tells why there are such. do may run several times, and the last one counts.
func (c *Client) act(ctx context.Context, verb, target string, do func(*pgstore.Store) (int, error)) error {
	var err error
	for tries := 1; ; tries++ {
		err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
			store := c.store.On(tx)
			n, err := do(store)
			if err != nil {
				return err
			}
			if n == 0 && verb != "pause" && verb != "resume" {
				return nil // nothing was there
			}
			return store.Note(ctx, c.actor(), verb, target, n)
		})
		if !isConflict(err) || tries == actTries || !pause(ctx, backoff(tries-1)) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, target, scrub(err))
	}
	return nil
}

// publish tells every process. An error is left to the bus' log: workers read the rows by themselves, only later.
func (c *Client) publish(ctx context.Context, control coord.Control) {
	_ = c.bus.Publish(context.WithoutCancel(ctx), control)
}

// actor returns who acts.
func (c *Client) actor() string {
	if c.cfg.Actor != "" {
		return c.cfg.Actor
	}
	user := cmp.Or(os.Getenv("USER"), os.Getenv("USERNAME"), fmt.Sprintf("uid %d", os.Getuid()))
	host := "unknown"
	if name, err := os.Hostname(); err == nil {
		host = name
	}
	return user + "@" + host
}

func targetOf(ids []job.ID) string {
	if len(ids) == 1 {
		return "job " + ids[0].String()
	}
	return fmt.Sprintf("%d jobs", len(ids))
}
