//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/job"
)

// book is the ledger of who held which key, kept outside of the queue: a table of its own, written by each handler on a
// connection of its own, with the times of the database's clock.
type book struct {
	pool  *pgxpool.Pool
	table string
}

// bookConns is how many connections each process has for it.
const bookConns = 4

func openBook(url, namespace string) (*book, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = bookConns
	// What a process wrote survives its death all the same, and no server dies here.
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	return &book{pool: pool, table: namespace + ".book"}, nil
}

// bookOf makes the table in the rig's schema and returns the book, closed when the test ends.
func (r *rig) bookOf() *book {
	r.t.Helper()
	b, err := openBook(r.url, r.namespace)
	must(r.t, err)
	r.t.Cleanup(b.pool.Close)
	r.exec(`CREATE TABLE weir.book (job_id uuid, fence int, session uuid NOT NULL, process text NOT NULL, keys text[] NOT NULL,
		claimed_at timestamptz NOT NULL, began timestamptz NOT NULL, ended timestamptz, PRIMARY KEY (job_id, fence))`)
	return b
}

// begin notes that a handler has begun to run a job with keys.
func (b *book) begin(row job.Row, process string, keys []string) error {
	return b.write(`INSERT INTO `+b.table+` (job_id, fence, session, process, keys, claimed_at, began)
		VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())`, row.ID.UUID(), row.Fence, row.Session.UUID(), process, append([]string{}, keys...), row.ClaimedAt)
}

// end notes that it is about to return; nothing more is done for the job.
func (b *book) end(row job.Row) error {
	return b.write(`UPDATE `+b.table+` SET ended = clock_timestamp() WHERE job_id = $1 AND fence = $2`, row.ID.UUID(), row.Fence)
}

func (b *book) write(sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := b.pool.Exec(ctx, sql, args...)
	return err
}

// run is one claim of a job as the book has it.
type run struct {
	id      job.ID
	fence   int
	process string
	keys    []string
	claimed time.Time
	from    time.Time
	to      time.Time // exclusive; the zero time: it has not ended
}

func (u run) String() string {
	return fmt.Sprintf("%s fence %d in %s from %s to %s", u.id, u.fence, u.process, clock(u.from), clock(u.to))
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "…"
	}
	return t.UTC().Format("15:04:05.000000")
}

// runs reads the book. A run ends when its handler returns or when its lease does, whichever is first: what a process
// that stood still does after that is refused, and is no run. exits says when processes ended that were told to: their
// session is gone, and with the process all its handlers are.
func (r *rig) runs(exits map[string]time.Time) []run {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), r.in(`SELECT b.job_id, b.fence, b.process, b.keys, b.claimed_at, b.began, b.ended,
			CASE WHEN s.dead_at IS NOT NULL THEN s.lease_until END, s.id IS NULL
		FROM weir.book AS b LEFT JOIN weir.sessions AS s ON s.id = b.session ORDER BY b.began`))
	must(r.t, err)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (run, error) {
		var (
			u            run
			ended, lease *time.Time
			isClosed     bool
		)
		err := row.Scan((*[16]byte)(&u.id), &u.fence, &u.process, &u.keys, &u.claimed, &u.from, &ended, &lease, &isClosed)
		u.until(ended)
		u.until(lease)
		if exit, ok := exits[u.process]; ok && isClosed {
			u.until(&exit)
		}
		return u, err
	})
	must(r.t, err)
	return out
}

func (u *run) until(at *time.Time) {
	if at != nil && (u.to.IsZero() || at.Before(u.to)) {
		u.to = *at
	}
}

// overlaps returns what is wrong: each run that began while as many others as its key allows held it. limit says how
// many that are for a claim made at a time.
func overlaps(runs []run, limit func(key string, claimed time.Time) int) []string {
	var faults []string
	holders := map[string][]run{}
	for _, u := range slices.SortedStableFunc(slices.Values(runs), func(a, b run) int { return a.from.Compare(b.from) }) {
		if !u.to.IsZero() && !u.from.Before(u.to) {
			continue // its lease was over before it had begun
		}
		for _, key := range u.keys {
			held := slices.DeleteFunc(holders[key], func(h run) bool { return !h.to.IsZero() && !h.to.After(u.from) })
			if n := limit(key, u.claimed); len(held) >= n {
				faults = append(faults, fmt.Sprintf("key %q of limit %d: %s began beside %d others: %v", key, n, u, len(held), held))
			}
			holders[key] = append(held, u)
		}
	}
	return faults
}

// checkHolders holds the book to the limits: P4.
func (r *rig) checkHolders(runs []run, limit func(key string, claimed time.Time) int) {
	r.t.Helper()
	for _, e := range readLedgers(r.t, r.dir).of(unbooked) {
		r.t.Errorf("job %s is not in the book: %s", e.ID, e.Err)
	}
	faults := overlaps(runs, limit)
	for i, f := range faults {
		if i == 10 {
			r.t.Errorf("and %d more", len(faults)-i)
			return
		}
		r.t.Error("P4: ", f)
	}
}

// checkFences: what a holder did that had lost its claim was refused. The outcome is that of the last claim that ran.
func (r *rig) checkFences(runs []run) {
	r.t.Helper()
	last := map[job.ID]int{}
	for _, u := range runs {
		last[u.id] = max(last[u.id], u.fence)
	}
	for id, list := range r.ends() {
		for _, e := range list {
			if e.state == "completed" && e.fence < last[id] {
				r.t.Errorf("P3: job %s completed with fence %d though a claim with fence %d had begun", id, e.fence, last[id])
			}
		}
	}
}

// held says how long each key had holders, for the log: a run in which nothing waits proves nothing.
func held(runs []run) string {
	sums := map[string]time.Duration{}
	for _, u := range runs {
		for _, key := range u.keys {
			if !u.to.IsZero() {
				sums[key] += u.to.Sub(u.from)
			}
		}
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, fmt.Sprintf("%s %v", key, sums[key].Round(time.Millisecond)))
	}
	return strings.Join(out, ", ")
}

// The checker itself: a table of runs and how many of them are one too many.
func TestTheBookFindsHoldersBeyondTheLimit(t *testing.T) {
	t.Parallel()
	origin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return origin.Add(time.Duration(ms) * time.Millisecond) }
	on := func(from, to int, keys ...string) run {
		return run{keys: keys, claimed: at(from), from: at(from), to: at(to)}
	}
	open := func(from int, keys ...string) run { return run{keys: keys, claimed: at(from), from: at(from)} }
	one := func(string, time.Time) int { return 1 }
	for name, c := range map[string]struct {
		runs  []run
		limit func(string, time.Time) int
		want  int
	}{
		"one after the other":               {[]run{on(0, 10, "a"), on(10, 20, "a"), on(20, 30, "a")}, one, 0},
		"two at once":                       {[]run{on(0, 10, "a"), on(9, 20, "a")}, one, 1},
		"one inside the other":              {[]run{on(0, 100, "a"), on(10, 20, "a"), on(30, 40, "a")}, one, 2},
		"two keys do not meet":              {[]run{on(0, 10, "a"), on(5, 20, "b")}, one, 0},
		"two keys meet in one":              {[]run{on(0, 10, "a", "b"), on(5, 20, "b", "c")}, one, 1},
		"one that never ended":              {[]run{open(0, "a"), on(1000, 1001, "a")}, one, 1},
		"one whose lease had ended":         {[]run{on(0, 10, "a"), on(7, 5, "a")}, one, 0},
		"two of two":                        {[]run{on(0, 10, "a"), on(1, 10, "a")}, func(string, time.Time) int { return 2 }, 0},
		"three of two":                      {[]run{on(0, 10, "a"), on(1, 10, "a"), on(9, 12, "a")}, func(string, time.Time) int { return 2 }, 1},
		"in any order of writing":           {[]run{on(9, 20, "a"), on(0, 10, "a")}, one, 1},
		"a limit that fell while they held": {[]run{on(0, 100, "a"), on(1, 100, "a"), on(60, 70, "a")}, lowered(at(50), 2, 1), 1},
		"a limit that fell, after they end": {[]run{on(0, 60, "a"), on(1, 60, "a"), on(61, 70, "a")}, lowered(at(50), 2, 1), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := overlaps(c.runs, c.limit); len(got) != c.want {
				t.Errorf("%d faults, want %d: %v", len(got), c.want, got)
			}
		})
	}
}

func lowered(at time.Time, before, after int) func(string, time.Time) int {
	return func(_ string, claimed time.Time) int {
		if claimed.Before(at) {
			return before
		}
		return after
	}
}
