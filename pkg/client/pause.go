package client

import (
	"context"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Target is what can be paused: a queue or a kind.
type Target struct {
	what string // "queue" or "kind"
	name string
}

// Queue is the target that is all jobs of a queue.
func Queue(name string) Target { return Target{"queue", name} }

// Kind is the target that is all jobs of a kind.
func Kind(name string) Target { return Target{"kind", name} }

func (t Target) validate() error {
	switch t.what {
	case "queue":
		return job.ValidateQueue(t.name)
	case "kind":
		return job.ValidateKind(t.name)
	}
	return &job.FieldError{Field: "target", Got: "empty", Limit: "client.Queue(name) or client.Kind(name)"}
}

// Pause stops the starting of jobs of a queue or kind in every process. What runs goes on, and enqueueing too. To pause
// what is paused changes nothing. Workers obey within milliseconds by Redis, and at the latest with their next renewal.
func (c *Client) Pause(ctx context.Context, target Target) error {
	return c.setPaused(ctx, "pause", target, true)
}

// Resume ends a pause. To resume what is not paused changes nothing.
func (c *Client) Resume(ctx context.Context, target Target) error {
	return c.setPaused(ctx, "resume", target, false)
}

func (c *Client) setPaused(ctx context.Context, verb string, target Target, paused bool) error {
	if err := target.validate(); err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	err := c.act(ctx, verb, target.what+" "+target.name, func(store *pgstore.Store) (int, error) {
		changed, err := store.Pause(ctx, target.what, target.name, paused)
		if changed {
			return 1, err
		}
		return 0, err
	})
	if err != nil {
		return err
	}
	control := coord.Control{Verb: verb, Queue: target.name}
	if target.what == "kind" {
		control.Queue, control.Kind = "", target.name
	}
	c.publish(ctx, control)
	return nil
}
