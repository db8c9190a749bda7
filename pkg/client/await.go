package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// How often Await asks: often at first, for jobs that take milliseconds, then ever more seldom.
const (
	minPoll = 5 * time.Millisecond
	maxPoll = time.Second
)

// Await waits until a job has ended and returns its result; the zero R if it left none. It gives the *job.FailedError of
// a job that ended otherwise than completed, and ErrNotFound if there is no such job, or none that is committed. It ends
// with ctx; give that a deadline. While the database is away it goes on waiting.
//
// It asks the database at intervals that grow from 5 ms to a second.
func Await[R any](ctx context.Context, c *Client, id job.ID) (R, error) {
	var result R
	o, err := c.await(ctx, id)
	if err != nil {
		return result, fmt.Errorf("await job %s: %w", id, err)
	}
	if o.State != job.Completed {
		return result, &job.FailedError{ID: id, Kind: o.Kind, State: o.State, Message: o.Error}
	}
	if len(o.Result) == 0 {
		return result, nil
	}
	if err := json.Unmarshal(o.Result, &result); err != nil {
		return result, fmt.Errorf("decode the result of job %s into %T: %w", id, result, err)
	}
	return result, nil
}

func (c *Client) await(ctx context.Context, id job.ID) (pgstore.Outcome, error) {
	missed := 0
	for wait := minPoll; ; wait = min(2*wait, maxPoll) {
		o, found, err := c.look(ctx, id)
		switch {
		case err == nil && found:
			return o, nil
		case ctx.Err() != nil:
			return o, ended(ctx)
		case errors.Is(err, ErrNotFound):
			// Once can be an accident: it ended after one question and was retried by hand before the next.
			if missed++; missed > 1 {
				return o, err
			}
		case err != nil && !isAway(err):
			return o, err
		default:
			missed = 0
		}
		if !pause(ctx, wait/2+rand.N(wait/2)) {
			return o, ended(ctx)
		}
	}
}

// look asks once how a job ended. ErrNotFound means that it seems not to exist.
func (c *Client) look(ctx context.Context, id job.ID) (o pgstore.Outcome, found bool, err error) {
	if err := c.enter(); err != nil {
		return o, false, err
	}
	defer c.leave()
	if o, found, err = c.outcome(ctx, id); found || err != nil {
		return o, found, err
	}
	isLive, err := c.store.Live(ctx, id)
	if isLive || err != nil {
		return o, false, err
	}
	// It may have ended between the two.
	if o, found, err = c.outcome(ctx, id); found || err != nil {
		return o, found, err
	}
	return o, false, ErrNotFound
}

func (c *Client) outcome(ctx context.Context, id job.ID) (pgstore.Outcome, bool, error) {
	ends, err := c.store.Outcomes(ctx, []job.ID{id})
	o, found := ends[id]
	return o, found, err
}
