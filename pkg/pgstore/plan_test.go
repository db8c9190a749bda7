package pgstore_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// The sizes of the tests of plans and of scan positions. A longer run: go test ./pkg/pgstore -run Plan -planjobs 2000000
var planJobs = flag.Int("planjobs", 300_000, "live jobs in the tests of plans; the others scale with it")

const (
	planBatch  = 100  // jobs a statement
	planRounds = 5    // of which the median counts
	smallTable = 2000 // rows; one that has no more is rightly read as a whole
)

// hot is a statement under test: what it costs for planBatch jobs when all plans were made on empty tables. The times
// are generous, for machines that do other things as well; the blocks are what tells an index from a whole table, of
// which 300,000 jobs have some 6,000.
type hot struct {
	within time.Duration
	blocks int // touched, of tables and indexes, cached or not, in the whole statement
}

var hotStatements = map[string]hot{
	"claim":           {15 * time.Millisecond, 4500},
	"claim one":       {6 * time.Millisecond, 250},
	"claim poll":      {15 * time.Millisecond, 4500},
	"enqueue":         {15 * time.Millisecond, 4500},
	"enqueue again":   {15 * time.Millisecond, 4500},
	"enqueue as JSON": {20 * time.Millisecond, 4500},
	"finish":          {15 * time.Millisecond, 3000},
	"finish one":      {6 * time.Millisecond, 100},
	"finish in a tx":  {6 * time.Millisecond, 100},
	"retry":           {15 * time.Millisecond, 6000},
	"bury":            {30 * time.Millisecond, 6000},
	"release":         {15 * time.Millisecond, 5000},
	"cancel":          {40 * time.Millisecond, 6000},
	"ask to cancel":   {20 * time.Millisecond, 5000},
	"time out":        {15 * time.Millisecond, 5000},
	"recover":         {40 * time.Millisecond, 9000},
	"expire":          {30 * time.Millisecond, 6000},
	"revive":          {60 * time.Millisecond, 6000},
	"delete":          {30 * time.Millisecond, 9000},
	"renew":           {6 * time.Millisecond, 400},
	"held":            {6 * time.Millisecond, 400},
	"live":            {6 * time.Millisecond, 50},
	"job":             {6 * time.Millisecond, 100},
	"attempts":        {6 * time.Millisecond, 50},
	"outcomes":        {15 * time.Millisecond, 2500},
	"orphan sessions": {6 * time.Millisecond, 400},
	"due":             {15 * time.Millisecond, 4000},
	"stragglers":      {15 * time.Millisecond, 4000},
	"mark dead":       {6 * time.Millisecond, 400},
	"close session":   {6 * time.Millisecond, 100},
	"beat":            {6 * time.Millisecond, 100},
}

// measurements of one statement.
type cost struct {
	times  []time.Duration
	blocks int      // of the dearest run
	seq    []string // rows that were read without an index
}

// planned runs the hot statements on one connection and measures them.
type planned struct {
	*bench
	conn   *pgx.Conn
	oldIDs job.IDs
	costs  map[string]*cost // nil while plans are only being made
	count  bool             // count blocks, in a transaction, instead of time
}

func TestPlansMadeOnEmptyTablesServeAFullOne(t *testing.T) {
	for _, first := range []string{"never vacuumed", "vacuumed while empty"} {
		t.Run(first, func(t *testing.T) {
			p := openPlanned(t, first == "vacuumed while empty")
			for range 7 { // a server makes its generic plan after five
				p.script(2)
			}
			p.load(*planJobs)
			p.costs = make(map[string]*cost)
			for range planRounds {
				p.script(planBatch)
			}
			p.count = true
			p.script(planBatch)
			p.check(t)
		})
	}
}

func openPlanned(t *testing.T, vacuumed bool) *planned {
	b := open(t)
	for _, table := range b.rows("SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::regnamespace", b.schema) {
		b.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
		if vacuumed {
			b.exec("VACUUM (ANALYZE) " + table)
		}
	}
	conn, err := b.pool.Acquire(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	p := &planned{bench: b.on(conn.Conn()), conn: conn.Conn()}
	p.oldIDs.SetOffset(-2 * time.Minute)
	return p
}

// load puts n due jobs into queue "q", and as many completed ones beside them, without ANALYZE.
func (p *planned) load(n int) {
	p.loadLive(n, "q", "k", 5, "clock_timestamp() - interval '1 min'")
	p.exec(`INSERT INTO weir.outcomes (finished_at, claimed_at, fence, attempt, id, session, queue)
		SELECT clock_timestamp(), clock_timestamp(), 1, 1, gen_random_uuid(), gen_random_uuid(), 'q' FROM generate_series(1, $1)`, n/3)
	p.exec(`INSERT INTO weir.attempts (ended_at, started_at, attempt, fence, job_id, outcome)
		SELECT clock_timestamp(), clock_timestamp(), 1, 1, gen_random_uuid(), 'failed' FROM generate_series(1, $1)`, n/3)
}

// loadLive puts n jobs into log and live at once, due at ready.
func (b *bench) loadLive(n int, queue, kind string, priority int, ready string) {
	b.t.Helper()
	b.exec(`WITH new AS (
		INSERT INTO weir.jobs (id, enqueued_at, max_attempts, priority, kind, queue, payload)
		SELECT (left(weir.new_id()::text, 13) || right(gen_random_uuid()::text, 23))::uuid, clock_timestamp(), 25, $2, $3, $4, '{"n":1}'
		FROM generate_series(1, $1) RETURNING id)
		INSERT INTO weir.live (ready_at, max_attempts, size, priority, id, queue, kind)
		SELECT `+ready+`, 25, 7, $2, id, $4, $3 FROM new`, n, priority, kind, queue)
}

// run runs f, which is the statement called name, and measures it.
func (p *planned) run(name string, f func() error) {
	p.t.Helper()
	if _, known := hotStatements[name]; !known {
		p.t.Fatalf("%s has no limits", name)
	}
	if p.costs != nil && p.costs[name] == nil {
		p.costs[name] = &cost{}
	}
	if p.costs != nil && p.count {
		p.counted(name, f)
		return
	}
	begun := time.Now()
	if err := f(); err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	if p.costs != nil {
		p.costs[name].times = append(p.costs[name].times, time.Since(begun))
	}
}

// counted runs f in a transaction, in which the server tells exactly what f touched.
func (p *planned) counted(name string, f func() error) {
	p.t.Helper()
	p.raw("BEGIN")
	before := p.touched()
	if err := f(); err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	c, blocks := p.costs[name], 0
	for table, after := range p.touched() {
		blocks += after.blocks - before[table].blocks
		if n := after.read - before[table].read; n > smallTable {
			c.seq = append(c.seq, fmt.Sprintf("%d rows of %s", n, table))
		}
	}
	c.blocks = max(c.blocks, blocks)
	p.raw("COMMIT")
}

func (p *planned) raw(sql string) {
	p.t.Helper()
	if _, err := p.conn.Exec(p.ctx, sql); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
}

type touched struct{ blocks, read int }

func (p *planned) touched() map[string]touched {
	p.t.Helper()
	rows, err := p.conn.Query(p.ctx, `SELECT c.relname, pg_stat_get_xact_blocks_fetched(c.oid),
		CASE WHEN c.relkind = 'r' THEN pg_stat_get_xact_tuples_returned(c.oid) ELSE 0 END
		FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'i')`, p.schema)
	if err != nil {
		p.t.Fatalf("%v", err)
	}
	all := make(map[string]touched)
	for rows.Next() {
		var (
			name string
			n    touched
		)
		if err := rows.Scan(&name, &n.blocks, &n.read); err != nil {
			p.t.Fatalf("%v", err)
		}
		all[name] = n
	}
	if err := rows.Err(); err != nil {
		p.t.Fatalf("%v", err)
	}
	return all
}

func (p *planned) check(t *testing.T) {
	t.Helper()
	for name, limit := range hotStatements {
		c := p.costs[name]
		if c == nil {
			t.Errorf("%s was not run", name)
			continue
		}
		slices.Sort(c.times)
		median := c.times[len(c.times)/2]
		t.Logf("%-18s %8.2f ms %6d blocks", name, float64(median.Microseconds())/1000, c.blocks)
		if median > limit.within {
			t.Errorf("%s took %s, want at most %s", name, median, limit.within)
		}
		if c.blocks > limit.blocks {
			t.Errorf("%s touched %d blocks, want at most %d", name, c.blocks, limit.blocks)
		}
		if len(c.seq) > 0 {
			t.Errorf("%s read without an index: %v", name, c.seq)
		}
	}
}

// script runs every hot statement once, for n jobs each.
func (p *planned) script(n int) {
	s := p.session()
	p.enqueueAll(n)
	p.finishAll(s, n)
	p.endAll(s, n)
	p.sweepAll(n)
	p.readAll(s)
}

func (p *planned) enqueueAll(n int) {
	jobs := make([]pgstore.NewJob, n)
	for i := range jobs {
		jobs[i] = p.newJob(func(j *pgstore.NewJob) { j.ID = p.oldIDs.New() }) // such as may be in jobs_kept
	}
	p.run("enqueue", func() error { _, err := p.store.Enqueue(p.ctx, jobs); return err })
	for i := range jobs {
		jobs[i].Known = true
	}
	p.run("enqueue again", func() error { _, err := p.store.Enqueue(p.ctx, jobs); return err })
	for i := range jobs {
		jobs[i] = p.newJob()
	}
	query, arg, err := p.store.EnqueueSQL(jobs)
	if err != nil {
		p.t.Fatalf("%v", err)
	}
	p.run("enqueue as JSON", func() error { _, err := p.conn.Exec(p.ctx, query, arg); return err })
}

// take claims n jobs of the queue, whatever their age, under the name of a statement.
func (p *planned) take(name string, s job.ID, n int, poll bool) (got []job.Row) {
	p.t.Helper()
	p.run(name, func() error {
		req := request(s, n)
		req.Poll = poll
		c, err := p.store.Claim(p.ctx, req)
		got = c.Jobs
		return err
	})
	if len(got) == 0 {
		p.t.Fatalf("%s: no job", name)
	}
	return got
}

func (p *planned) finishAll(s job.ID, n int) {
	finish := func(name string, rows []job.Row) {
		p.run(name, func() error { _, err := p.store.Finish(p.ctx, s, completionsOf(rows...)); return err })
	}
	finish("finish", p.take("claim poll", s, n, true))
	p.enqueue(8 * n) // a queue that is empty by now gets something for the rest
	finish("finish one", p.take("claim one", s, 1, false))
	r := p.take("claim one", s, 1, false)[0]
	p.run("finish in a tx", func() error { return p.store.FinishTx(p.ctx, s, heldOf(r)[0], nil) })
}

func (p *planned) endAll(s job.ID, n int) {
	failed := pgstore.Failure{Outcome: "failed", Error: "x", Ran: time.Second, Final: job.DeadDiscarded}
	rows := p.take("claim", s, n, false)
	p.run("time out", func() error { return p.store.TimingOut(p.ctx, s, heldOf(rows...)) })
	p.run("retry", func() error { _, _, err := p.store.Retry(p.ctx, s, failuresOf(failed, rows...)); return err })
	rows = p.take("claim", s, n, false)
	p.run("ask to cancel", func() error { _, _, err := p.store.Cancel(p.ctx, idsOf(rows), ""); return err })
	p.run("bury", func() error { _, err := p.store.Bury(p.ctx, s, failuresOf(failed, rows...)); return err })
	dead := idsOf(rows)
	rows = p.take("claim", s, n, false)
	p.run("release", func() error { _, _, err := p.store.Release(p.ctx, s, heldOf(rows...), time.Hour, 0); return err })
	p.run("cancel", func() error { _, _, err := p.store.Cancel(p.ctx, idsOf(rows), "x"); return err })
	p.run("revive", func() error { _, err := p.store.Revive(p.ctx, dead); return err })
	p.run("delete", func() error { _, _, err := p.store.Delete(p.ctx, idsOf(rows)); return err })
}

func (p *planned) sweepAll(n int) {
	s := p.session()
	p.take("claim", s, n, false)
	p.exec("UPDATE weir.sessions SET lease_until = clock_timestamp() - interval '1 s' WHERE id = $1", s.UUID())
	p.run("mark dead", func() error { _, err := p.store.MarkDeadBy(p.ctx, p.ids.New(), time.Now().Add(time.Hour)); return err })
	p.run("recover", func() error { _, err := p.store.Recover(p.ctx, nil, n, 0); return err })
	p.exec("UPDATE weir.live SET expires_at = clock_timestamp() - interval '1 s' WHERE ctid = ANY (ARRAY(SELECT ctid FROM weir.live WHERE state = 0 LIMIT $1))", n)
	p.run("expire", func() error { _, err := p.store.Expire(p.ctx, n); return err })
	p.run("orphan sessions", func() error { _, err := p.store.OrphanSessions(p.ctx); return err })
	p.run("due", func() error {
		_, err := p.store.Due(p.ctx, pgstore.DueRange{Window: time.Hour, Horizon: time.Minute, Limit: n})
		return err
	})
	p.run("stragglers", func() error { _, err := p.store.Stragglers(p.ctx, 0, n); return err })
	p.run("beat", func() error { _, err := p.store.Beat(p.ctx, p.session(), time.Minute); return err })
}

func (p *planned) readAll(s job.ID) {
	rows := p.take("claim", s, planBatch, false)
	id := rows[0].ID
	p.run("renew", func() error {
		_, err := p.store.Renew(p.ctx, s, pgstore.Renewal{Lease: time.Hour, State: "serving"})
		return err
	})
	p.run("held", func() error { _, err := p.store.Held(p.ctx, s); return err })
	p.run("live", func() error { _, err := p.store.Live(p.ctx, id); return err })
	p.run("job", func() error { _, err := p.store.Job(p.ctx, id); return err })
	p.run("attempts", func() error { _, err := p.store.Attempts(p.ctx, id); return err })
	p.run("outcomes", func() error { _, err := p.store.Outcomes(p.ctx, idsOf(rows)); return err })
	p.run("close session", func() error { return p.store.CloseSession(p.ctx, s) })
}

func idsOf(rows []job.Row) []job.ID {
	ids := make([]job.ID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids
}
