package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirq/weir/pkg/job"
)

// maxActed is how many jobs one transaction of an operator's changes: their rows stay locked until it commits.
const maxActed = 500

func parts(ids []job.ID) [][]job.ID { return slices.Collect(slices.Chunk(ids, maxActed)) }

// CancelMany cancels the jobs that f selects and that have not ended, as Cancel does, and returns how many. It works in
// batches of 500, newest first; after an error, a *BatchError, those before stay cancelled. An empty filter is refused.
func (c *Client) CancelMany(ctx context.Context, f Filter) (int, error) {
	return c.actMany(ctx, f, func(s job.State) bool { return !s.Final() }, func(ids []job.ID) (int, error) {
		live, err := c.cancel(ctx, ids)
		return len(live), err
	})
}

// RetryMany makes the jobs that f selects due now, as Retry does, and returns how many: those that were discarded,
// cancelled or expired and those that wait for a retry; scheduled ones only if f.State says so. A dead one whose unique key
// belongs to a live job stays dead. It works in batches of 500, newest first; after an error, a *BatchError, those before stay
// retried. An empty filter is refused.
func (c *Client) RetryMany(ctx context.Context, f Filter) (int, error) {
	wanted := func(s job.State) bool {
		switch s {
		case job.Discarded, job.Cancelled, job.Expired, job.Retrying:
			return true
		case job.Scheduled:
			return f.State == job.Scheduled
		}
		return false
	}
	return c.actMany(ctx, f, wanted, func(ids []job.ID) (int, error) {
		n, _, err := c.retry(ctx, ids)
		return n, err
	})
}

// DeleteMany forgets the jobs that f selects and that do not run, as Delete does, and returns how many. It works in
// batches of 500, newest first; after an error, a *BatchError, those before stay deleted. An empty filter is refused.
func (c *Client) DeleteMany(ctx context.Context, f Filter) (int, error) {
	return c.actMany(ctx, f, func(s job.State) bool { return s != job.Running }, func(ids []job.ID) (int, error) {
		return c.remove(ctx, ids)
	})
}

// actMany calls act with the ids of the jobs that f selects and that are in a wanted state, and sums up its counts.
func (c *Client) actMany(ctx context.Context, f Filter, wanted func(job.State) bool, act func([]job.ID) (int, error)) (int, error) {
	if f.IsZero() {
		return 0, &job.FieldError{Field: "Filter", Got: "empty", Limit: "at least one field: this would be every job"}
	}
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	total := 0
	next := f.Before // what is newer is done
	var ids []job.ID
	flush := func() error {
		if len(ids) == 0 {
			return nil
		}
		n, err := act(ids)
		if err == nil {
			next = ids[len(ids)-1]
		}
		total, ids = total+n, nil
		return err
	}
	stopped := func(err error) (int, error) {
		if err != nil {
			err = &BatchError{Done: total, Before: next, Err: err}
		}
		return total, err
	}
	for row, err := range c.Jobs(ctx, f) {
		if err != nil {
			return stopped(err)
		}
		if !wanted(row.State) {
			continue
		}
		if ids = append(ids, row.ID); len(ids) < maxActed {
			continue
		}
		if err := flush(); err != nil {
			return stopped(err)
		}
	}
	return stopped(flush())
}

// BatchError reports that an action on many jobs ended before it was through them. The same call with Filter.Before set to Before
// goes on where it stopped.
type BatchError struct {
	Done   int    // jobs that it was done to
	Before job.ID // zero: none was
	Err    error
}

func (e *BatchError) Error() string {
	if e.Before.IsZero() {
		return e.Err.Error()
	}
	return fmt.Sprintf("stopped after %d jobs, before %s: %v", e.Done, e.Before, e.Err)
}

// Unwrap returns Err.
func (e *BatchError) Unwrap() error { return e.Err }
