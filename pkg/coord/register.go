package coord

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// idleExpiry is how long an idle set outlives the last Register of any worker; a worker that polls refreshes it.
const idleExpiry = 2 * time.Minute

// Idle says how many slots a worker has free in a queue.
type Idle struct {
	Queue string
	Free  int // below one: the worker leaves the queue's idle set
}

// Register puts a worker into the idle sets of its queues, or corrects its free slots there (`score`). Call it before the
// claim that precedes sleeping (`regFirst`), so that no job falls between the two, and again at every poll
// (`reregister`): Redis may have lost the set.
func (b *Bus) Register(ctx context.Context, worker string, idle ...Idle) error {
	if worker == "" {
		return errors.New("register: a worker needs a name")
	}
	if len(idle) == 0 {
		return nil
	}
	names := make([]string, 0, len(idle))
	args := make([]any, 0, 2+len(idle))
	args = append(args, worker, idleExpiry.Milliseconds())
	for _, i := range idle {
		if len(i.Queue) > maxName {
			return fmt.Errorf("register: queue name of %d bytes: limit %d", len(i.Queue), maxName)
		}
		names = append(names, b.keys.idle(i.Queue))
		args = append(args, i.Free)
	}
	return b.do(ctx, "register", func(ctx context.Context) error {
		return registerScript.Run(ctx, b.rdb, names, args...).Err()
	})
}
