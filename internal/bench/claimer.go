package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// claimer claims and finishes at the store, with a dispatcher's cursors and nothing else of a worker.
type claimer struct {
	store   *pgstore.Store
	session job.ID
	cursor  [pgstore.Ranges]pgstore.Position
	began   bool
	waits   int // claims in a row that gave way
}

func newPool(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	return pgxpool.NewWithConfig(ctx, cfg)
}

func (c *claimer) open(ctx context.Context) error {
	_, err := c.store.OpenSession(ctx, pgstore.Session{
		ID: c.session, Role: "worker", Lease: time.Hour, Host: "bench", Queues: []string{job.DefaultQueue}, Kinds: []string{"noop"},
	})
	return err
}

// claim takes at most n jobs from where the last claim ended.
func (c *claimer) claim(ctx context.Context, n int) ([]job.Row, error) {
	starts := c.cursor
	if c.began {
		floor := pgstore.Position{ReadyAt: time.Now().Add(-250 * time.Millisecond)}
		for p := range starts {
			if floor.Compare(starts[p]) < 0 {
				starts[p] = floor
			}
		}
	}
	got, err := c.store.Claim(ctx, pgstore.ClaimRequest{
		Session: c.session, Kinds: []string{"noop"},
		Queues: []pgstore.ClaimQueue{{Name: job.DefaultQueue, Slots: n, Starts: starts}}, Force: c.waits >= 5, NoNext: true,
	})
	if err != nil {
		return nil, err
	}
	if got.Contended { // as a dispatcher does
		wait := 5 * time.Millisecond << min(c.waits, 4)
		c.waits++
		time.Sleep(wait/2 + rand.N(wait))
		return nil, nil
	}
	c.waits = 0
	c.began = true
	for p, scan := range got.Scans[0] {
		if scan == pgstore.Complete {
			c.cursor[p] = pgstore.Position{ReadyAt: got.Now}
		}
	}
	for i := range got.Jobs {
		r := &got.Jobs[i]
		if got.Scans[0][r.Priority-1] == pgstore.Cut {
			c.cursor[r.Priority-1] = pgstore.Position{ReadyAt: r.ReadyAt, ID: r.ID}
		}
	}
	return got.Jobs, nil
}

func (c *claimer) finish(ctx context.Context, rows []job.Row) error {
	done := make([]pgstore.Completion, len(rows))
	for i := range rows {
		done[i].Held = pgstore.Held{ID: rows[i].ID, Fence: rows[i].Fence}
	}
	got, err := c.store.Finish(ctx, c.session, done)
	if err == nil && len(got) != len(rows) {
		err = fmt.Errorf("%d of %d results refused", len(rows)-len(got), len(rows))
	}
	return err
}

// warm opens the session and runs each statement a few times.
func (c *claimer) warm(ctx context.Context, s *stage) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	for range 6 {
		if err := s.enqueue(ctx, 0, 1); err != nil {
			return err
		}
		rows, err := c.claim(ctx, 1)
		if err == nil {
			err = c.finish(ctx, rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loop claims and finishes until total jobs are done by all.
func (c *claimer) loop(ctx context.Context, batch int, done *atomic.Int64, total int64) error {
	for done.Load() < total {
		got, err := c.claim(ctx, batch)
		if err != nil {
			return err
		}
		if len(got) == 0 {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if err := c.finish(ctx, got); err != nil {
			return err
		}
		done.Add(int64(len(got)))
	}
	return nil
}
