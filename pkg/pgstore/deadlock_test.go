package pgstore_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// A longer run: go test ./pkg/pgstore -run Deadlock -crossfor 5m
var crossFor = flag.Duration("crossfor", 5*time.Second, "how long the statements cross each other in the test of deadlocks")

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
	broken  error
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
		_, err = c.store.Finish(c.ctx, c.session, completionsOf(c.held...))
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

// sweep lets some session die, or some jobs expire.
func (c *crossing) sweep() error {
	if _, err := c.pool.Exec(c.ctx, c.text(`UPDATE weir.sessions SET dead_at = clock_timestamp() WHERE id = ANY (ARRAY(
		SELECT id FROM weir.sessions WHERE dead_at IS NULL ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED))`)); err != nil {
		return err
	}
	if _, err := c.store.Recover(c.ctx, nil, 100, 0); err != nil {
		return err
	}
	if _, err := c.pool.Exec(c.ctx, c.text(`UPDATE weir.live SET expires_at = clock_timestamp() - interval '1 s' WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM weir.live WHERE state <> 1 ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED))`)); err != nil {
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
	server := testenv.PrivatePostgres(t, "deadlock_timeout", "50ms", "max_connections", "60")
	pool, schema := testenv.SchemaOn(t, server.URL()+"&pool_max_conns=40")
	b := benchOn(t, pool, schema)
	ids := b.enqueue(crossJobs)
	all := make([]*crossing, crossSessions)
	var wg sync.WaitGroup
	end := time.Now().Add(*crossFor)
	for i := range all {
		c := &crossing{bench: b, ids: ids, session: b.session(), random: rand.New(rand.NewPCG(uint64(i), 1))}
		all[i] = c
		wg.Go(func() {
			for c.broken == nil && time.Now().Before(end) {
				c.broken = c.step()
			}
		})
	}
	wg.Wait()
	for _, c := range all {
		var pg *pgconn.PgError
		if errors.As(c.broken, &pg) {
			t.Errorf("%s %s: %s", pg.Code, c.broken, pg.Detail)
		} else if c.broken != nil {
			t.Error(c.broken)
		}
	}
	b.countedOnce(t, ids)
	b.tellDeadlocks(t)
}

// tellDeadlocks logs what the server says of deadlocks, if the test has failed: which statements they were.
func (b *bench) tellDeadlocks(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, said := range b.rows(`SELECT m[1] FROM regexp_matches(pg_read_file('weir.log'), '(ERROR:  deadlock detected.*?STATEMENT:  [^\n]*\n)', 'g') AS m LIMIT 3`) {
		t.Log(said)
	}
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
