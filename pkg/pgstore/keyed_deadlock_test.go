package pgstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

const keyedSessions = 32

// keyedCrossing is a crossing whose jobs have keys, of which there are few.
type keyedCrossing struct{ *crossing }

func (c *keyedCrossing) key() string { return string(rune('a' + c.random.IntN(5))) }

// step runs one statement at random, of those about keys and of all others.
func (c *keyedCrossing) step() error {
	switch c.random.IntN(12) {
	case 0, 1, 2:
		return c.admitMore()
	case 3, 4:
		return c.finish()
	case 5, 6:
		got, err := c.store.Pass(c.ctx, c.session, c.key(), serves(int32(c.random.IntN(3))))
		c.held = append(c.held, got.Jobs...)
		return err
	case 7:
		_, err := c.store.Tidy(c.ctx, "", 100)
		return err
	case 8:
		return c.change()
	}
	if err := c.crossing.step(); err != nil {
		return err
	}
	// What was enqueued again has lost its keys.
	_, err := c.pool.Exec(c.ctx, c.text(`UPDATE weir.live SET keys = CASE WHEN random() < 0.3 THEN ARRAY[$1, $1 || 'a', 'f'] ELSE ARRAY[$1] END,
		key_limits = NULL, flags = flags | 1, line_at = ready_at
		WHERE id = ANY (ARRAY(SELECT id FROM weir.live WHERE keys IS NULL AND state = 0 ORDER BY id LIMIT 20 FOR UPDATE))`), c.key())
	return err
}

func (c *keyedCrossing) admitMore() error {
	req := request(c.session, 20)
	req.Queues[0].Alone = c.random.IntN(20)
	got, err := c.store.Claim(c.ctx, req)
	if errors.Is(err, pgstore.ErrSessionLost) {
		c.session = c.bench.session()
		return nil
	}
	if err != nil {
		return err
	}
	c.held = append(got.Jobs, c.held[:min(len(c.held), 30)]...)
	jobs := make([]pgstore.AdmitJob, len(got.Candidates))
	for i, k := range got.Candidates {
		jobs[i].ID = k.ID
		if c.random.IntN(20) == 0 {
			jobs[i].Later = time.Millisecond
		}
	}
	c.random.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	a, err := c.store.Admit(c.ctx, c.session, jobs, serves(0))
	if errors.Is(err, pgstore.ErrSessionLost) {
		return nil
	}
	c.held = append(a.Jobs, c.held...)
	return err
}

// change sets a limit of a key or of the queue, or lets reservations run out.
func (c *keyedCrossing) change() (err error) {
	switch c.random.IntN(3) {
	case 0:
		_, err = c.pool.Exec(c.ctx, c.text("INSERT INTO weir.limits AS l (key, slots) VALUES ($1, $2) ON CONFLICT (key, prefix, rate) DO UPDATE SET slots = excluded.slots"),
			c.key(), c.random.IntN(4))
	case 1:
		_, err = c.pool.Exec(c.ctx, c.text("INSERT INTO weir.queues AS q (name, slots) VALUES ('q', $1) ON CONFLICT (name) DO UPDATE SET slots = excluded.slots"),
			[]*int{nil, nil, new(int)}[c.random.IntN(3)])
	case 2:
		_, err = c.pool.Exec(c.ctx, c.text(`UPDATE weir.locks SET until = clock_timestamp() WHERE until IS NOT NULL AND (key, slot) IN (
			SELECT key, slot FROM weir.locks WHERE until IS NOT NULL ORDER BY key, slot LIMIT 1 FOR UPDATE SKIP LOCKED)`))
	}
	return err
}

func TestStatementsAboutKeysThatCrossDoNotDeadlockAndLoseNothing(t *testing.T) {
	t.Parallel()
	h := newHunt(t)
	ids := h.enqueue(crossJobs)
	for i, id := range ids {
		h.giveKeys(id, nil, [][]string{{"a"}, {"b"}, {"a", "b"}, {"c", "d"}, {"e"}, {"b", "c", "d"}}[i%6]...)
	}
	steps := make([]func() error, keyedSessions)
	for i := range steps {
		c := &keyedCrossing{&crossing{bench: h.bench, ids: ids, session: h.session(), random: rand.New(rand.NewPCG(uint64(i), 2)), keyed: true}}
		steps[i] = c.step
	}
	h.run(t, steps)
	h.countedOnce(t, ids)
	h.lockedOnce(t)
}

// lockedOnce checks that lock rows and live rows agree, and places in line.
func (b *bench) lockedOnce(t *testing.T) {
	t.Helper()
	for what, sql := range map[string]string{
		"lock rows without their claim":          "SELECT k.key, k.slot, k.fence, k.until, l.id, l.fence, l.state, l.keys, l.key_limits, l.flags, l.session FROM weir.locks AS k LEFT JOIN weir.live AS l ON l.id = k.job_id WHERE l.id IS NULL OR l.fence <> k.fence OR (k.until IS NULL) <> (l.state = 1)",
		"running jobs without all their locks":   "SELECT l.id FROM weir.live AS l WHERE l.state = 1 AND cardinality(l.keys) <> (SELECT count(*) FROM weir.locks AS k WHERE k.job_id = l.id)",
		"blocked jobs that hold something":       "SELECT l.id FROM weir.live AS l JOIN weir.locks AS k ON k.job_id = l.id WHERE l.state = 2",
		"blocked jobs without a place in a line": "SELECT l.id FROM weir.live AS l WHERE l.state = 2 AND cardinality(l.keys) - 1 <> (SELECT count(*) FROM weir.waits AS w WHERE w.job_id = l.id)",
		"places of jobs that are not blocked":    "SELECT w.job_id FROM weir.waits AS w LEFT JOIN weir.live AS l ON l.id = w.job_id WHERE l.state IS DISTINCT FROM 2",
	} {
		if rows := b.rows(sql); len(rows) > 0 {
			t.Errorf("%d %s: %s", len(rows), what, fmt.Sprint(rows[:min(len(rows), 3)]))
		}
	}
}
