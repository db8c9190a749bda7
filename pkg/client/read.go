package client

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// pageSize is how many jobs Jobs reads at a time.
const pageSize = 100

// Filter selects jobs. Zero fields do not filter.
type Filter struct {
	Queue string
	Kind  string
	State job.State
	Tag   string
	// Key takes jobs with a lock or a rate of this name.
	Key string
	// Since takes jobs enqueued at most so long ago, on the database clock, by the times in their ids.
	Since time.Duration
	// Before takes jobs with lower ids: older than that one. With nothing else it selects everything (IsZero).
	Before job.ID
}

// IsZero reports whether f selects everything.
func (f Filter) IsZero() bool {
	f.Before = job.ID{}
	return f == Filter{}
}

func (f Filter) validate() error {
	if f.Queue != "" {
		if err := job.ValidateQueue(f.Queue); err != nil {
			return err
		}
	}
	if f.Kind != "" {
		if err := job.ValidateKind(f.Kind); err != nil {
			return err
		}
	}
	if err := job.ValidateQueue(f.Tag); err != nil && f.Tag != "" { // tags have a queue's limits
		return &job.FieldError{Field: "Tag", Got: fmt.Sprintf("%.64q", f.Tag), Limit: "up to 128 bytes of UTF-8 without control characters"}
	}
	if err := job.ValidateKey(f.Key); err != nil && f.Key != "" {
		return &job.FieldError{Field: "Key", Got: fmt.Sprintf("%.64q", f.Key), Limit: "up to 255 bytes of UTF-8 without NUL, not beginning with \"weir.\""}
	}
	if f.State != "" && !f.State.Valid() {
		return &job.FieldError{Field: "State", Got: fmt.Sprintf("%.64q", string(f.State)), Limit: "one of job.States"}
	}
	if f.Since < 0 {
		return &job.FieldError{Field: "Since", Got: f.Since.String(), Limit: "0 or more"}
	}
	return nil
}

// Job returns a job as it stands, with its payload, result and attempts, or ErrNotFound.
func (c *Client) Job(ctx context.Context, id job.ID) (job.Row, error) {
	if err := c.enter(); err != nil {
		return job.Row{}, err
	}
	defer c.leave()
	row, err := c.store.Job(ctx, id)
	if err != nil {
		return job.Row{}, fmt.Errorf("job %s: %w", id, err)
	}
	return row, nil
}

// Jobs returns the jobs that f selects, newest first, without their attempts. It reads 100 at a time while the loop goes
// on: a job that changes meanwhile is seen as it is then, and none is seen twice or left out because others come and go.
// An error ends the loop.
//
//	for row, err := range c.Jobs(ctx, client.Filter{Queue: "mail", State: job.Discarded, Since: 24 * time.Hour}) {
func (c *Client) Jobs(ctx context.Context, f Filter) iter.Seq2[job.Row, error] {
	return func(yield func(job.Row, error) bool) {
		page, err := c.page(ctx, f)
		for err == nil {
			var rows []job.Row
			if rows, err = c.turn(ctx, page); err != nil {
				break
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if len(rows) < page.Limit {
				return
			}
			page.Before = rows[len(rows)-1].ID // by id, not by count: rows that come and go shift nothing
		}
		yield(job.Row{}, err)
	}
}

// page returns the first page of f.
func (c *Client) page(ctx context.Context, f Filter) (pgstore.Page, error) {
	if err := f.validate(); err != nil {
		return pgstore.Page{}, err
	}
	page := pgstore.Page{Queue: f.Queue, Kind: f.Kind, State: f.State, Tag: f.Tag, Key: f.Key, Before: f.Before, Limit: pageSize}
	if f.Since == 0 {
		return page, nil
	}
	if err := c.enter(); err != nil {
		return page, err
	}
	defer c.leave()
	if err := c.clock.ensure(ctx); err != nil {
		return page, fmt.Errorf("list jobs: %w", err)
	}
	page.Since = c.clock.now().Add(-f.Since)
	return page, nil
}

func (c *Client) turn(ctx context.Context, page pgstore.Page) ([]job.Row, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.store.Jobs(ctx, page)
}
