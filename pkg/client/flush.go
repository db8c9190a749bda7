package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// flush is one batch of the coalescer on its connection.
type flush struct {
	queue  *coalescer
	conn   *pgxpool.Conn
	store  *pgstore.Store
	failed error // why jobs were given back, if any
}

// send stores a batch and settles each of its jobs, or gives it back. Every outcome is that of a statement of its own:
// nothing that goes wrong with one job reaches another.
func (f *flush) send(batch []*entry, isReminted bool) {
	if len(batch) == 0 {
		return
	}
	c := f.queue.client
	jobs := make([]pgstore.NewJob, len(batch))
	for i, e := range batch {
		jobs[i] = e.job
	}
	sent := time.Now()
	out, err := f.store.Enqueue(context.Background(), jobs) // not on a caller's context: it ends for one, not for all
	switch {
	case err == nil:
		c.clock.learn(out.Now, sent)
		f.queue.stored(batch, &out)
		c.hints.announce(jobs, &out, false)
	case errors.Is(err, pgstore.ErrClockAhead) && !isReminted:
		f.remint(batch)
	case isRow(err) && len(batch) > 1:
		half := len(batch) / 2
		f.send(batch[:half], isReminted)
		f.send(batch[half:], isReminted)
	case isUnknown(err):
		for _, e := range batch {
			f.queue.fail([]*entry{e}, &UnknownError{IDs: []job.ID{e.job.ID}, Err: scrub(err)})
		}
	case isTransient(err):
		c.retire(f.conn, err)
		f.failed = err
		f.queue.giveBack(batch, err)
	default:
		f.queue.fail(batch, scrub(err))
	}
}

// remint gives new ids to a batch that was refused because of ids ahead of the database clock, and sends it once more.
func (f *flush) remint(batch []*entry) {
	c := f.queue.client
	sent := time.Now()
	c.clock.restart()
	now, err := f.store.Now(context.Background())
	if err != nil { // the batch was refused: nothing is unknown
		f.failed = err
		f.queue.giveBack(batch, fmt.Errorf("learn the offset of the clock: %w", err))
		return
	}
	c.clock.learn(now, sent)
	f.send(f.queue.remint(batch), true)
}

// remint returns the jobs that have an id to try again with. One of the caller's own fails if it is ahead; one whose
// caller has gone is dropped, since under another id it could be there twice after a retry.
func (q *coalescer) remint(batch []*entry) (again []*entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range batch {
		if e.isLeft {
			continue
		}
		if !e.own {
			e.job.ID, e.job.Known = q.client.clock.ids.Load().New(), false
		} else if err := q.client.clock.check(e.job.ID, time.Second); err != nil {
			q.settleLocked(e, Enqueued{}, err)
			continue
		}
		again = append(again, e)
	}
	return again
}
