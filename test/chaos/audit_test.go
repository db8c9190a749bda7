//go:build unix

package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// audit says what a fault allows. Its zero value: every job ran once, completed with its first attempt, and nothing is
// live.
type audit struct {
	starts   int  // most starts of a job; zero: one
	attempts int  // most attempts that an outcome may count; zero: one
	live     bool // jobs may be live
	dead     int  // how many jobs ended otherwise than completed
	byHand   bool // rows were changed by hand: outcomes need no handler's end, starts no log row

	forgotten map[job.ID]bool // the database was set back to before these: they may have run, and need not be there
}

// end is how a job ended by the database's account.
type end struct {
	id      job.ID
	state   string
	fence   int
	attempt int
}

// check compares the database with the ledgers. It returns how many starts there were beyond one a job.
func (r *rig) check(a audit) (again int) {
	r.t.Helper()
	again, faults := r.audit(a)
	const most = 10
	for i, f := range faults {
		if i == most {
			r.t.Errorf("and %d more", len(faults)-most)
			break
		}
		r.t.Error(f)
	}
	return again
}

// inspection is one run of the oracle.
type inspection struct {
	*rig
	want    audit
	ledgers account
	ends    map[job.ID][]end
	faults  []string
}

func (i *inspection) fault(format string, args ...any) {
	i.faults = append(i.faults, fmt.Sprintf(format, args...))
}

func (r *rig) audit(a audit) (again int, faults []string) {
	r.t.Helper()
	a.starts, a.attempts = max(a.starts, 1), max(a.attempts, 1)
	i := &inspection{rig: r, want: a, ledgers: readLedgers(r.t, r.dir), ends: r.ends()}
	i.checkEnds()
	i.checkAcked()
	again = i.checkStarts()
	i.checkTimes()
	i.checkRest()
	return again, i.faults
}

// checkAcked: P1, nothing is lost.
func (i *inspection) checkAcked() {
	live := i.ids("SELECT id FROM weir.live")
	for _, e := range i.ledgers.of(acked) {
		switch n := len(i.ends[e.ID]); {
		case i.want.forgotten[e.ID]:
		case n == 0 && !live[e.ID]:
			i.fault("P1: job %s was acknowledged and is lost", e.ID)
		case n == 0 && !i.want.live:
			i.fault("P1: job %s has not ended", e.ID)
		case n > 0 && live[e.ID]:
			i.fault("P1: job %s has ended and is live", e.ID)
		}
	}
}

// checkStarts: P2, nothing runs that was not committed; and nothing more often than the fault allows.
func (i *inspection) checkStarts() (again int) {
	known := i.ids("SELECT id FROM weir.jobs UNION SELECT id FROM weir.jobs_kept")
	for id, starts := range i.ledgers.of(started).byID() {
		if !known[id] && !i.want.byHand && !i.want.forgotten[id] {
			i.fault("P2: job %s ran and its insert was not committed", id)
		}
		if len(starts) > i.want.starts {
			i.fault("job %s started %d times, at most %d: %v", id, len(starts), i.want.starts, starts)
		}
		again += len(starts) - 1
	}
	return again
}

// checkEnds: P3, and what ended how.
func (i *inspection) checkEnds() {
	returned := i.ledgers.of(ended).byID()
	dead := 0
	for id, list := range i.ends {
		if len(list) > 1 {
			i.fault("P3: job %s has %d outcomes: %v", id, len(list), list)
		}
		o := list[0]
		if o.state != "completed" {
			dead++
			continue
		}
		if o.attempt > i.want.attempts {
			i.fault("job %s completed with attempt %d, at most %d", id, o.attempt, i.want.attempts)
		}
		isOurs := i.want.byHand
		for _, e := range returned[id] {
			isOurs = isOurs || e.Fence == o.fence && e.Err == ""
		}
		if !isOurs {
			i.fault("P3: job %s completed by the claim with fence %d, whose handler did not end well: %v", id, o.fence, returned[id])
		}
	}
	if dead != i.want.dead {
		i.fault("%d jobs ended otherwise than completed, want %d", dead, i.want.dead)
	}
}

// checkTimes: P2, nothing before its time. All clocks are this machine's.
func (i *inspection) checkTimes() {
	i.t.Helper()
	rows, err := i.pool.Query(i.t.Context(), i.in("SELECT id, coalesce(scheduled_at, enqueued_at) FROM weir.jobs"))
	if err != nil {
		i.t.Fatal(err)
	}
	due := make(map[job.ID]time.Time)
	for rows.Next() {
		var (
			id [16]byte
			at time.Time
		)
		if err := rows.Scan(&id, &at); err != nil {
			i.t.Fatal(err)
		}
		due[id] = at
	}
	if err := rows.Err(); err != nil {
		i.t.Fatal(err)
	}
	for _, e := range i.ledgers.of(started) {
		if at, ok := due[e.ID]; ok && e.At.Before(at) {
			i.fault("P2: job %s started %v before its time", e.ID, at.Sub(e.At))
		}
	}
}

// checkRest: nothing is left running, no transaction open, no advisory lock held (I5).
func (i *inspection) checkRest() {
	i.t.Helper()
	for what, sql := range map[string]string{
		"rows are running in sessions that are gone": `SELECT count(*) FROM weir.live AS l WHERE l.state = 1 AND NOT EXISTS
			(SELECT FROM weir.sessions AS s WHERE s.id = l.session AND s.dead_at IS NULL)`,
		"locks are left": "SELECT count(*) FROM weir.locks",
	} {
		if n := i.count(sql); n != 0 {
			i.fault("I5: %d %s", n, what)
		}
	}
	if i.postgres == nil {
		return // others use the server too
	}
	for what, sql := range map[string]string{
		"transactions are open":   "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'",
		"advisory locks are held": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
	} {
		n := 0
		// A statement under way is no fault: what stays is one.
		for range 100 {
			if n = i.count(sql); n == 0 {
				break
			}
			pause(50 * time.Millisecond)
		}
		if n != 0 {
			i.fault("I5: %d %s", n, what)
		}
	}
}

func (r *rig) ends() map[job.ID][]end {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), r.in(`SELECT id, 'completed', fence, attempt FROM weir.outcomes
		UNION ALL SELECT id, state::text, fence, attempt FROM weir.dead`))
	if err != nil {
		r.t.Fatal(err)
	}
	out := make(map[job.ID][]end)
	for rows.Next() {
		var e end
		if err := rows.Scan((*[16]byte)(&e.id), &e.state, &e.fence, &e.attempt); err != nil {
			r.t.Fatal(err)
		}
		out[e.id] = append(out[e.id], e)
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) ids(sql string) map[job.ID]bool {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), r.in(sql))
	if err != nil {
		r.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		r.t.Fatal(err)
	}
	out := make(map[job.ID]bool, len(list))
	for _, id := range list {
		out[id] = true
	}
	return out
}

// An oracle that sees nothing proves nothing: each of these is a fault that it must report.
func TestTheOracleFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(r *rig, id job.ID){
		"a job that is lost": func(r *rig, id job.ID) { r.exec("DELETE FROM weir.outcomes WHERE id = $1", id.UUID()) },
		"a job that ended twice": func(r *rig, id job.ID) {
			r.exec("INSERT INTO weir.outcomes SELECT * FROM weir.outcomes WHERE id = $1", id.UUID())
		},
		"a job that ran twice": func(r *rig, id job.ID) { r.ledger.note(event{What: started, ID: id}) },
		"a job that ran and is not there": func(r *rig, id job.ID) {
			r.ledger.note(event{What: started, ID: r.client.IDs().New()})
		},
		"an outcome that no handler gave": func(r *rig, id job.ID) {
			r.exec("UPDATE weir.outcomes SET fence = fence + 1 WHERE id = $1", id.UUID())
		},
		"a crash that used an attempt": func(r *rig, id job.ID) {
			r.exec("UPDATE weir.outcomes SET attempt = 2 WHERE id = $1", id.UUID())
		},
		"a job that ran too early": func(r *rig, id job.ID) {
			r.exec("UPDATE weir.jobs SET scheduled_at = clock_timestamp() + interval '1 h' WHERE id = $1", id.UUID())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withoutRedis())
			w := r.worker("worker")
			id := r.enqueue(work{})
			r.awaitEmpty(10 * time.Second)
			r.check(audit{})
			harm(r, id)
			w.stop()
			if _, faults := r.audit(audit{}); len(faults) == 0 {
				t.Error("the oracle has seen nothing")
			}
		})
	}
}
