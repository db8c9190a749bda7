package client

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/internal/cadence"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/pgstore"
)

// ScheduleInfo is a schedule as it is stored.
type ScheduleInfo = pgstore.ScheduleRow

// Schedules returns all schedules of the namespace, by name.
func (c *Client) Schedules(ctx context.Context) ([]ScheduleInfo, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.store.Schedules(ctx, "")
}

// Schedule returns one schedule. The error is ErrNotFound if there is none of that name.
func (c *Client) Schedule(ctx context.Context, name string) (ScheduleInfo, error) {
	if err := c.enter(); err != nil {
		return ScheduleInfo{}, err
	}
	defer c.leave()
	return c.scheduleNamed(ctx, name)
}

func (c *Client) scheduleNamed(ctx context.Context, name string) (ScheduleInfo, error) {
	if name == "" {
		return ScheduleInfo{}, fmt.Errorf("schedule %q: %w", name, ErrNotFound)
	}
	rows, err := c.store.Schedules(ctx, name)
	if err != nil {
		return ScheduleInfo{}, err
	}
	if len(rows) == 0 {
		return ScheduleInfo{}, fmt.Errorf("schedule %q: %w", name, ErrNotFound)
	}
	return rows[0], nil
}

// RunSchedule enqueues the job of a schedule now, also of one that is off. Its ticks stay as they are. The error is ErrNotFound if
// there is none of that name.
func (c *Client) RunSchedule(ctx context.Context, name string) (Enqueued, error) {
	if err := c.enter(); err != nil {
		return Enqueued{}, err
	}
	defer c.leave()
	var f pgstore.Fired
	err := c.act(ctx, "run", "schedule "+name, func(store *pgstore.Store) (n int, err error) {
		f, err = store.RunSchedule(ctx, name)
		return 1, err
	})
	if err != nil {
		return Enqueued{}, err
	}
	c.AnnounceFired([]pgstore.Fired{f})
	return Enqueued{ID: f.ID, Duplicate: f.Duplicate}, nil
}

// EnableSchedule makes a schedule fire again, from its next tick from now on; what was missed meanwhile stays missed. It holds
// until DisableSchedule, or until the schedule's owner changes what it declares about that. To enable what is enabled changes
// nothing. The error is ErrNotFound if there is none of that name.
func (c *Client) EnableSchedule(ctx context.Context, name string) error {
	return c.switchSchedule(ctx, "enable", name, true)
}

// DisableSchedule stops the firing of a schedule; jobs that it has added stay. See EnableSchedule.
func (c *Client) DisableSchedule(ctx context.Context, name string) error {
	return c.switchSchedule(ctx, "disable", name, false)
}

func (c *Client) switchSchedule(ctx context.Context, verb, name string, on bool) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	for range 5 {
		s, err := c.scheduleNamed(ctx, name)
		if err != nil || s.Enabled() == on {
			return err
		}
		next := time.Time{}
		if on {
			cad, err := cadence.New(s.Rhythm.Every, s.Rhythm.Cron, s.Rhythm.Zone)
			if err != nil {
				return fmt.Errorf("enable schedule %q: %w", name, err)
			}
			next = cad.After(s.NextAt, s.Now)
		}
		done := false
		err = c.act(ctx, verb, "schedule "+name, func(store *pgstore.Store) (int, error) {
			if done, err = store.EnableSchedule(ctx, name, s.Fence, on, next); done {
				return 1, err
			}
			return 0, err
		})
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("%s schedule %q: it is being changed all the time", verb, name)
}

// DeleteSchedule forgets a schedule. When its owner declares it again it is there again: take it out of the list, or disable it.
// The error is ErrNotFound if there is none of that name.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.forgetSchedule(ctx, "delete", "schedule "+name, func(store *pgstore.Store) (int, error) { return store.DeleteSchedule(ctx, name) })
}

// ForgetSchedules forgets which version owner is at: the next SyncSchedules wins, also one of an older release. It is for
// rollbacks; no schedule is changed. The error is ErrNotFound if owner has never declared any.
func (c *Client) ForgetSchedules(ctx context.Context, owner string) error {
	return c.forgetSchedule(ctx, "forget", "schedules of "+owner, func(store *pgstore.Store) (int, error) { return store.ForgetOwner(ctx, owner) })
}

func (c *Client) forgetSchedule(ctx context.Context, verb, target string, do func(*pgstore.Store) (int, error)) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	return c.act(ctx, verb, target, func(store *pgstore.Store) (int, error) {
		n, err := do(store)
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return n, err
	})
}

// AnnounceFired wakes a worker for each job that schedules have added, in this process or by Redis, after the commit. For package
// sweeper; not covered by the compatibility promise.
func (c *Client) AnnounceFired(fired []pgstore.Fired) {
	if c.enter() != nil {
		return
	}
	defer c.leave()
	a := announcements{}
	for _, f := range fired {
		if f.ID.IsZero() || f.Duplicate || f.Delayed {
			continue
		}
		key := subject{f.Queue, f.Kind}
		h, ok := a[key]
		if !ok {
			h = coord.Hint{Queue: f.Queue, Kind: f.Kind, ReadyAt: f.Due}
		}
		h.Count++
		h.ReadyAt = earliest(h.ReadyAt, f.Due)
		a[key] = h
	}
	c.hints.wake(a)
}
