package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Limit is an entry that counts before what jobs say of a key themselves: of the key of this name or, if Prefix, of all whose
// names begin so; the key's own entry counts before the longest prefix. N is how many hold a lock at once, where zero lets none
// start, or, if Rate, how many start in a window of Per.
type Limit = pgstore.Limit

// QueueLimit is what all workers together may do with a queue: so many jobs at once, so many starts in a window of Per, or both.
type QueueLimit = pgstore.QueueLimit

// OwnedError reports an entry that a configuration file owns. To replace it all the same, override.
type OwnedError struct {
	What string // "key tenant:*", "queue mail", …
}

func (e *OwnedError) Error() string {
	return "client: the limit of " + e.What + " belongs to a configuration file"
}

// maxEntries is how many entries of limits Limits returns.
const maxEntries = 10_000

func validateLimit(l Limit) error {
	if !l.Prefix || l.Key != "" { // an empty prefix is for all keys
		if err := job.ValidateKey(l.Key); err != nil {
			return err
		}
	}
	least := 0
	if l.Rate {
		least = 1 // a rate of nothing would be jobs that wait for ever
	}
	if l.N < least || l.N > job.MaxKeyLimit {
		return &job.FieldError{Field: "limit", Got: fmt.Sprint(l.N), Limit: fmt.Sprintf("%d to %d", least, job.MaxKeyLimit)}
	}
	if !l.Rate && l.Per != 0 {
		return &job.FieldError{Field: "per", Got: l.Per.String(), Limit: "none for a lock"}
	}
	if l.Rate {
		return validatePer(l.Per)
	}
	return nil
}

func validatePer(per time.Duration) error {
	if per < time.Millisecond || per > job.MaxRatePer || per%time.Millisecond != 0 {
		return &job.FieldError{Field: "per", Got: per.String(), Limit: "whole milliseconds from 1ms to 24h"}
	}
	return nil
}

// targetOfLimit names an entry for the table of actions and for people: "key tenant:*".
func targetOfLimit(l Limit) string {
	what, star := "key ", ""
	if l.Rate {
		what = "rate "
	}
	if l.Prefix {
		star = "*"
	}
	return what + strings.ToValidUTF8(l.Key, "?") + star
}

// SetLimit writes an entry; l.Owner is not looked at. It acts on what starts from now on: a lowered lock lets nothing start
// while it has N holders or more, a raised one starts those who wait at once. An entry of a configuration file is an *OwnedError
// unless override is given; it then stays replaced until UnsetLimit.
func (c *Client) SetLimit(ctx context.Context, l Limit, override bool) error {
	if err := validateLimit(l); err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	err := c.act(ctx, "limit", targetOfLimit(l), func(store *pgstore.Store) (int, error) {
		return 1, ownedBy(store.SetLimit(ctx, l, override), targetOfLimit(l))
	})
	if err != nil {
		return err
	}
	return c.passLimit(ctx, l)
}

// UnsetLimit takes an entry away; only Key, Prefix and Rate are looked at. What jobs say themselves, or a shorter prefix, counts
// again. The error is ErrNoLimit if there is none, and as for SetLimit if it belongs to a configuration file, whose owner writes
// it again when it starts.
func (c *Client) UnsetLimit(ctx context.Context, l Limit, override bool) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	err := c.act(ctx, "unlimit", targetOfLimit(l), func(store *pgstore.Store) (int, error) {
		return foundOne(store.UnsetLimit(ctx, l, override))(targetOfLimit(l))
	})
	if err != nil {
		return err
	}
	return c.passLimit(ctx, l)
}

// ownedBy names the entry that a file owns.
func ownedBy(err error, what string) error {
	if errors.Is(err, pgstore.ErrOwned) {
		return &OwnedError{What: what}
	}
	return err
}

// foundOne turns what unsetting came to into a count for act.
func foundOne(found bool, err error) func(what string) (int, error) {
	return func(what string) (int, error) {
		switch {
		case err != nil:
			return 0, ownedBy(err, what)
		case !found:
			return 0, ErrNoLimit
		}
		return 1, nil
	}
}

// passLimit starts those who wait for the locks that an entry is about. A rate's are waked by the time that they were given: a
// raised rate is used from the next start on.
func (c *Client) passLimit(ctx context.Context, l Limit) error {
	if l.Rate {
		return nil
	}
	keys, err := c.store.WaitingKeys(ctx, l, maxPassed)
	if err != nil {
		return fmt.Errorf("start those who wait: %w", scrub(err))
	}
	c.pass(ctx, keys)
	return nil
}

// Limits returns the entries, locks before rates, by key, 10,000 at most.
func (c *Client) Limits(ctx context.Context) ([]Limit, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.store.Limits(ctx, maxEntries)
}

func validateQueueLimit(q QueueLimit) error {
	if err := job.ValidateQueue(q.Name); err != nil {
		return err
	}
	for field, n := range map[string]int{"limit": q.N, "rate": q.Rate} {
		if n < 0 || n > job.MaxKeyLimit {
			return &job.FieldError{Field: field, Got: fmt.Sprint(n), Limit: fmt.Sprintf("1 to %d, or zero for none", job.MaxKeyLimit)}
		}
	}
	if q.Rate > 0 {
		return validatePer(q.Per)
	}
	if q.N == 0 {
		return &job.FieldError{Field: "limit", Got: "none", Limit: "a limit, a rate or both; UnsetQueueLimit takes them away"}
	}
	if q.Per != 0 {
		return &job.FieldError{Field: "per", Got: q.Per.String(), Limit: "none without a rate"}
	}
	return nil
}

// SetQueueLimit writes what all workers together may do with a queue, in the place of what there was; Name, N, Rate and Per are
// looked at. It acts when jobs start, on those that wait already too. Owned entries are as for SetLimit.
func (c *Client) SetQueueLimit(ctx context.Context, q QueueLimit, override bool) error {
	if err := validateQueueLimit(q); err != nil {
		return err
	}
	return c.limitQueue(ctx, "limit", q.Name, func(store *pgstore.Store) (int, error) {
		return 1, ownedBy(store.SetQueueLimit(ctx, q, override), "queue "+q.Name)
	})
}

// UnsetQueueLimit takes a queue's limits away. Errors are as for UnsetLimit.
func (c *Client) UnsetQueueLimit(ctx context.Context, queue string, override bool) error {
	if err := job.ValidateQueue(queue); err != nil {
		return err
	}
	return c.limitQueue(ctx, "unlimit", queue, func(store *pgstore.Store) (int, error) {
		return foundOne(store.UnsetQueueLimit(ctx, queue, override))("queue " + queue)
	})
}

func (c *Client) limitQueue(ctx context.Context, verb, queue string, do func(*pgstore.Store) (int, error)) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	if err := c.act(ctx, verb, "queue "+queue, do); err != nil {
		return err
	}
	c.wakeQueues(queue)
	return nil
}

// wakeQueues lets a worker look at queues that may have room now; one that fills its slots wakes the next.
func (c *Client) wakeQueues(queues ...string) {
	hints := announcements{}
	for _, q := range queues {
		hints.add(coord.Hint{Queue: q, Count: 1})
	}
	c.hints.wake(hints)
}

// QueueLimits returns the queues with limits, by name, and how much of them is used.
func (c *Client) QueueLimits(ctx context.Context) ([]QueueLimit, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.store.QueueLimits(ctx, "")
}

// SyncLimits makes the entries that a configuration file owns those of its lists and returns how many have changed: what left the
// list is taken away, what was made by hand and is in it becomes the file's, what was made by hand with override stays. Nil lists
// are not touched, empty ones take all away. Whose jobs may start by it start at once.
func (c *Client) SyncLimits(ctx context.Context, limits []Limit, queues []QueueLimit) (changed int, err error) {
	for _, l := range limits {
		if err := validateLimit(l); err != nil {
			return 0, err
		}
	}
	for _, q := range queues {
		if err := validateQueueLimit(q); err != nil {
			return 0, err
		}
	}
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	if limits != nil {
		entries, err := c.store.SyncLimits(ctx, limits)
		if err != nil {
			return 0, scrub(err)
		}
		changed += len(entries)
		for _, l := range entries {
			if err := c.passLimit(ctx, l); err != nil {
				return changed, err
			}
		}
	}
	if queues != nil {
		names, err := c.store.SyncQueueLimits(ctx, queues)
		if err != nil {
			return changed, scrub(err)
		}
		changed += len(names)
		c.wakeQueues(names...)
	}
	return changed, nil
}
