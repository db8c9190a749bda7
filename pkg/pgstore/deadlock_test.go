package pgstore_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

const (
	crossJobs     = 200
	crossSessions = 16
)

// crossing is one of the sessions that work on the same jobs at once.
type crossing struct {
	*bench
	ids     []job.ID
	session job.ID
	random  *rand.Rand
	held    []job.Row
	keyed   bool // the jobs have keys: finish does not know of those
}

// some draws up to 50 of the ids, in any order.
func (c *crossing) some() []job.ID {
	ids := make([]job.ID, 1+c.random.IntN(50))
	for i := range ids {
		ids[i] = c.ids[c.random.IntN(len(c.ids))]
	}
	return ids
}

// step runs one statement at random; what it is told about stale claims is of no interest.
func (c *crossing) step() error {
	f := pgstore.Failure{Outcome: "failed", Final: job.DeadDiscarded}
	var err error
	switch c.random.IntN(12) {
	case 0, 1, 2, 3:
		return c.claimMore()
	case 4:
		return c.finish()
	case 5:
		_, _, err = c.store.Retry(c.ctx, c.session, failuresOf(f, c.held...))
	case 6:
		_, _, err = c.store.Release(c.ctx, c.session, heldOf(c.held...), 0, 0)
	case 7:
		_, err = c.store.Bury(c.ctx, c.session, failuresOf(f, c.held...))
	case 8:
		_, _, err = c.store.Cancel(c.ctx, c.some(), "cross")
	case 9:
		_, err = c.store.Revive(c.ctx, c.some())
	case 10:
		return c.sweep()
	case 11:
		return c.replace()
	}
	return err
}

func (c *crossing) finish() error {
	if !c.keyed {
		_, err := c.store.Finish(c.ctx, c.session, completionsOf(c.held...))
		return err
	}
	got, err := c.store.FinishKeyed(c.ctx, c.session, completionsOf(c.held...), serves(int32(c.random.IntN(3))))
	c.held = append(got.Handed, c.held[:min(len(c.held), 30)]...)
	return err
}

func (c *crossing) claimMore() error {
	req := request(c.session, 20)
	req.Suspect = true
	got, err := c.store.Claim(c.ctx, req)
	if errors.Is(err, pgstore.ErrSessionLost) {
		c.session = c.bench.session()
		return nil
	}
	c.held = append(got.Jobs, c.held[:min(len(c.held), 30)]...) // with some that are over
	return err
}

// sweep lets some session die, or a job expire. One row at a time by hand: what skips and holds nothing closes no circle.
func (c *crossing) sweep() error {
	if _, err := c.pool.Exec(c.ctx, c.text(`UPDATE weir.sessions SET dead_at = clock_timestamp() WHERE id = ANY (ARRAY(
		SELECT id FROM weir.sessions WHERE dead_at IS NULL ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED))`)); err != nil {
		return err
	}
	if _, err := c.store.Recover(c.ctx, nil, 100, 0); err != nil {
		return err
	}
	if _, err := c.pool.Exec(c.ctx, c.text(`UPDATE weir.live SET expires_at = clock_timestamp() - interval '1 s' WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM weir.live WHERE state <> 1 ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED))`)); err != nil {
		return err
	}
	_, err := c.store.Expire(c.ctx, 100)
	return err
}

// replace deletes jobs and enqueues the same ids once more.
func (c *crossing) replace() error {
	ids := c.some()
	if _, _, err := c.store.Delete(c.ctx, ids); err != nil {
		return err
	}
	seen := make(map[job.ID]bool)
	var jobs []pgstore.NewJob
	for _, id := range c.ids { // in order, as clients send them
		for _, want := range ids {
			if id == want && !seen[id] {
				seen[id] = true
				jobs = append(jobs, c.newJob(func(j *pgstore.NewJob) { j.ID, j.Known = id, true }))
			}
		}
	}
	_, err := c.store.Enqueue(c.ctx, jobs)
	return err
}

func TestStatementsThatCrossDoNotDeadlockAndLoseNothing(t *testing.T) {
	t.Parallel()
	h := newHunt(t)
	ids := h.enqueue(crossJobs)
	steps := make([]func() error, crossSessions)
	for i := range steps {
		c := &crossing{bench: h.bench, ids: ids, session: h.session(), random: rand.New(rand.NewPCG(uint64(i), 1))}
		steps[i] = c.step
	}
	h.run(t, steps)
	h.countedOnce(t, ids)
}

// countedOnce checks that each job is live or has exactly one end. (All were enqueued again after each delete.)
func (b *bench) countedOnce(t *testing.T, ids []job.ID) {
	t.Helper()
	for _, id := range ids {
		if st := b.state(id); st == "" { // two rows end the test
			t.Errorf("%s is lost", id)
		}
	}
	if n := b.row("SELECT count(*) FROM weir.live AS l WHERE NOT EXISTS (SELECT FROM weir.log_row(l.id))"); n != "0" {
		t.Errorf("%s live jobs have no log row", n)
	}
	if n := b.row("SELECT count(*) FROM weir.live WHERE (state = 1) <> (session IS NOT NULL)"); n != "0" {
		t.Errorf("%s live rows whose state and session disagree", n)
	}
}
