package client

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Change says what is to be different about when waiting jobs start. Zero fields change nothing; at least one must be set.
type Change struct {
	// At is when they are due, on the database clock; an instant that is past means now. At most 9999-12-31 UTC.
	At time.Time
	// In is how long from now they are due. Not together with At.
	In time.Duration
	// Now makes them due now. Not together with At or In.
	Now bool
	// Priority is 1 (first) to 9.
	Priority int
}

func (ch Change) validate() (pgstore.Change, error) {
	out := pgstore.Change{At: ch.At, Priority: ch.Priority}
	times := 0
	for _, set := range []bool{!ch.At.IsZero(), ch.In != 0, ch.Now} {
		if set {
			times++
		}
	}
	switch {
	case times > 1:
		return out, &job.FieldError{Field: "Change", Got: "more than one of At, In and Now", Limit: "one of them"}
	case times == 0 && ch.Priority == 0:
		return out, &job.FieldError{Field: "Change", Got: "empty", Limit: "a time or a priority"}
	case ch.Priority < 0 || ch.Priority > job.MaxPriority:
		return out, &job.FieldError{Field: "Priority", Got: strconv.Itoa(ch.Priority), Limit: "1 to 9"}
	}
	if _, err := (job.Options{Delay: ch.In, ScheduledAt: ch.At}).Complete(); err != nil { // the limits of an enqueue
		return out, err
	}
	if ch.In != 0 || ch.Now {
		out.In = &ch.In
	}
	return out, nil
}

// Change changes when waiting jobs start: those that are due and not started, scheduled, wait for a retry, or are blocked on a
// key. A job that gets another time goes to the end of the line of its keys. For an id that is not among them the error is
// ErrNotFound or a *StateError, and the others are changed all the same.
func (c *Client) Change(ctx context.Context, ch Change, ids ...job.ID) error {
	want, err := ch.validate()
	if err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	for _, part := range parts(ids) {
		changed, err := c.change(ctx, want, part)
		if err != nil {
			return err
		}
		if len(changed) < len(part) {
			if err := c.unchanged(ctx, part, changed); err != nil {
				return err
			}
		}
	}
	return nil
}

// ChangeMany changes the waiting jobs that f selects, as Change does, and returns how many. It works in batches of 500, newest
// first; after an error those before stay changed. An empty filter is refused.
func (c *Client) ChangeMany(ctx context.Context, f Filter, ch Change) (int, error) {
	want, err := ch.validate()
	if err != nil {
		return 0, err
	}
	return c.actMany(ctx, f, func(s job.State) bool { return !s.Final() && s != job.Running }, func(ids []job.ID) (int, error) {
		changed, err := c.change(ctx, want, ids)
		return len(changed), err
	})
}

func (c *Client) change(ctx context.Context, want pgstore.Change, ids []job.ID) (changed []pgstore.Revived, err error) {
	var (
		freed []string
		rates []reservation
	)
	err = c.act(ctx, "change", targetOf(ids), func(store *pgstore.Store) (int, error) {
		if rates, err = c.reserved(ctx, store, ids); err != nil {
			return 0, err
		}
		changed, freed, err = store.Change(ctx, ids, want)
		return len(changed), err
	})
	if err != nil {
		return nil, err
	}
	c.pass(ctx, freed)
	// With its fence the name has changed under which it would find what it had reserved.
	c.unreserve(ctx, rates, func(id job.ID) bool {
		return slices.ContainsFunc(changed, func(r pgstore.Revived) bool { return r.ID == id })
	})
	// What is due later is announced by the sweeper when it is.
	soon := c.clock.now().Add(time.Second)
	c.hints.wakeRevived(slices.DeleteFunc(slices.Clone(changed), func(r pgstore.Revived) bool { return r.Due.After(soon) }))
	return changed, nil
}

// unchanged says of the first of ids that was not changed why.
func (c *Client) unchanged(ctx context.Context, ids []job.ID, changed []pgstore.Revived) error {
	done := map[job.ID]bool{}
	for _, r := range changed {
		done[r.ID] = true
	}
	for _, id := range ids {
		if done[id] {
			continue
		}
		row, err := c.store.Job(ctx, id)
		if err != nil {
			return fmt.Errorf("change job %s: %w", id, err)
		}
		return fmt.Errorf("change: %w", &StateError{ID: id, State: row.State})
	}
	return nil
}
