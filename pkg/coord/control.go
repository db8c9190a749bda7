package coord

import (
	"context"
	"errors"
	"fmt"
)

// Control tells every process of the namespace that something changed: a queue was paused, a job is to be cancelled. Like
// a hint it is no order: the change is a row in Postgres first, and the receiver reads it. Each has a slow poll behind it.
type Control struct {
	Verb  string // "pause", "resume", "cancel", …; at most 16 bytes
	Queue string // at most 128 bytes; empty: any
	Kind  string // empty: any
	ID    string // of a job or session, at most 40 bytes; empty: any
}

// Publish sends c to every process of the namespace, this one included. When queue and kind together are too long for one
// message the kind is left out: receivers must read an empty name as "look at all of them".
func (b *Bus) Publish(ctx context.Context, c Control) error {
	switch {
	case c.Verb == "":
		return errors.New("publish: a control message needs a verb")
	case len(c.Verb) > maxVerb:
		return fmt.Errorf("publish: verb of %d bytes: limit %d", len(c.Verb), maxVerb)
	case len(c.ID) > maxID:
		return fmt.Errorf("publish %s: id of %d bytes: limit %d", c.Verb, len(c.ID), maxID)
	case len(c.Queue) > maxName:
		return fmt.Errorf("publish %s: queue name of %d bytes: limit %d", c.Verb, len(c.Queue), maxName)
	case !b.Enabled():
		return nil
	}
	_, err := b.send(ctx, "publish "+c.Verb, b.keys.control(), controlMessage(c))
	if err == nil {
		b.count.controlsSent.Add(1)
	}
	return err
}

// send publishes to one channel and returns how many subscriptions it reached, in a cluster those of its shard.
func (b *Bus) send(ctx context.Context, what, channel, message string) (int64, error) {
	reached := make(chan int64, 1) // the command may outlive this call
	err := b.do(ctx, what, func(ctx context.Context) error {
		publish := b.rdb.Publish
		if b.sharded {
			publish = b.rdb.SPublish
		}
		n, err := publish(ctx, channel, message).Result()
		reached <- n
		return err
	})
	if err != nil {
		return 0, err
	}
	return <-reached, nil
}
