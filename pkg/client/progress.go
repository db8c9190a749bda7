package client

import (
	"context"
	"fmt"

	"github.com/weirq/weir/pkg/job"
)

// Progress returns how far a job's handler last said it is: of a running job within a quarter of a second, by Redis; of one that
// has ended, or without Redis, what it said last before its attempt ended. ok is false if it has said nothing. To know no such
// job is no error.
func (c *Client) Progress(ctx context.Context, id job.ID) (p job.Progress, ok bool, err error) {
	if err := c.enter(); err != nil {
		return p, false, err
	}
	defer c.leave()
	if live, ok, err := c.bus.ProgressOf(ctx, id.String()); err == nil && ok {
		return job.Progress{Percent: live.Percent, Note: live.Note, At: live.At}, true, nil
	}
	r, err := c.store.Reported(ctx, id)
	if err != nil {
		return p, false, fmt.Errorf("progress of job %s: %w", id, err)
	}
	if r.Progress == nil {
		return p, false, nil
	}
	return *r.Progress, true, nil
}
