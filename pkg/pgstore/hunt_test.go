package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/weirq/weir/internal/testenv"
)

// A longer run: go test ./pkg/pgstore -run Deadlock -crossfor 5m
var crossFor = flag.Duration("crossfor", 5*time.Second, "how long the statements cross each other in the test of deadlocks")

// hunt has a server of its own on which statements cross each other, and judges the deadlocks that it reports.
//
// There is one that no order of locks prevents (docs/decisions/0017): SKIP LOCKED waits all the same when the row's update
// ends between the look at the row and the look at its transaction, and somebody locks the new version first. What skips
// holds rows in an order of its own, so it can close a circle; callers try again. Any other deadlock is a fault of ours.
type hunt struct {
	*bench
	end   time.Time
	again atomic.Int64 // steps that a deadlock ended and that were tried again
}

func newHunt(t *testing.T) *hunt {
	t.Helper()
	server := testenv.PrivatePostgres(t, "deadlock_timeout", "50ms", "log_lock_waits", "on", "max_connections", "80")
	pool, schema := testenv.SchemaOn(t, server.URL()+"&pool_max_conns=60")
	h := &hunt{bench: benchOn(t, pool, schema), end: time.Now().Add(*crossFor)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+*crossFor)
	t.Cleanup(cancel)
	h.ctx = ctx
	// What skips tells the log where it waits long before whoever waits for it finds the circle.
	for _, name := range h.rows("SELECT p.oid::regprocedure::text FROM pg_proc AS p WHERE p.pronamespace = '" + schema + "'::regnamespace AND p.prosrc LIKE '%SKIP LOCKED%'") {
		h.exec("ALTER FUNCTION " + name + " SET deadlock_timeout = '5ms'")
	}
	return h
}

// run lets every session do steps until the time is over, and judges how they ended.
func (h *hunt) run(t *testing.T, steps []func() error) {
	t.Helper()
	broken := make([]error, len(steps))
	var wg sync.WaitGroup
	for i, step := range steps {
		wg.Go(func() {
			for broken[i] == nil && time.Now().Before(h.end) {
				broken[i] = h.unlessDeadlock(step())
			}
		})
	}
	wg.Wait()
	for _, err := range broken {
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			t.Errorf("%s %s: %s", pg.Code, err, pg.Detail)
		} else if err != nil {
			t.Error(err)
		}
	}
	h.judge(t)
}

// unlessDeadlock is err, or nil when the caller would try again.
func (h *hunt) unlessDeadlock(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "40P01" {
		h.again.Add(1)
		return nil
	}
	return err
}

var (
	logEntry = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d [\d:.]+ \w+ \[(\d+)\] `)
	waiter   = regexp.MustCompile(`Process (\d+) waits for`)
)

// judge reads in the server's log which deadlocks there were.
func (h *hunt) judge(t *testing.T) {
	t.Helper()
	var log string
	if err := h.pool.QueryRow(h.ctx, "SELECT pg_read_file('weir.log')").Scan(&log); err != nil {
		t.Fatal(err)
	}
	of, faults := judgeDeadlocks(log)
	for _, fault := range faults {
		t.Errorf("a deadlock that SKIP LOCKED does not explain:\n%s", fault)
	}
	if of != int(h.again.Load()) {
		t.Errorf("the log tells of %d deadlocks, the sessions of %d", of, h.again.Load())
	}
	if of > 0 {
		t.Logf("%d deadlocks, in each something that skips waited for the new version of a row", of-len(faults))
	}
}

// judgeDeadlocks counts the deadlocks in a server's log and returns those of which no member is a statement that skips
// and waits for the new version of a row.
func judgeDeadlocks(log string) (n int, faults []string) {
	at := logEntry.FindAllStringSubmatchIndex(log, -1)
	skips := map[string]bool{} // by process: whether its last wait was one that SKIP LOCKED should have skipped
	for i := 0; i < len(at); i++ {
		pid, text := log[at[i][2]:at[i][3]], entryText(log, at, i)
		isWait, isEnd := strings.Contains(text, "still waiting for"), strings.HasPrefix(text, "ERROR:  deadlock detected")
		if !isWait && !isEnd {
			continue
		}
		whole, own := text, "" // with the lines that belong to it: DETAIL, HINT, CONTEXT, STATEMENT; own is what it is at itself
		for i+1 < len(at) && log[at[i+1][2]:at[i+1][3]] == pid && !strings.HasPrefix(entryText(log, at, i+1), "LOG:") && !strings.HasPrefix(entryText(log, at, i+1), "ERROR:") {
			i++
			more := entryText(log, at, i)
			if whole += more; !strings.HasPrefix(more, "DETAIL:") { // there are the others' statements
				own += more
			}
		}
		// In a statement that locks without skipping the same wait is in order: it would have waited anyway.
		skips[pid] = strings.Contains(own, "while locking updated version") && !strings.Contains(own, "FOR UPDATE)")
		if !isEnd {
			continue
		}
		n++
		explained := false
		for _, member := range waiter.FindAllStringSubmatch(whole, -1) {
			explained = explained || skips[member[1]]
		}
		if !explained {
			faults = append(faults, whole)
		}
	}
	return n, faults
}

func entryText(log string, at [][]int, i int) string {
	end := len(log)
	if i+1 < len(at) {
		end = at[i+1][0]
	}
	return log[at[i][1]:end]
}

func TestOnlyADeadlockOfWhatSkipsIsForgiven(t *testing.T) {
	t.Parallel()
	const waits, circle = `2026-12-01 09:25:18.849 UTC [32] LOG:  process 32 still waiting for ShareLock on transaction 1398 after 50.360 ms
2026-12-01 09:25:18.849 UTC [32] DETAIL:  Process holding the lock: 29. Wait queue: 32.
2026-12-01 09:25:18.849 UTC [32] CONTEXT:  while locking updated version (37,89) of tuple in relation "live"
	PL/pgSQL function weir.recover_v1(uuid[],integer,bigint) line 5 at FOR over SELECT rows
2026-12-01 09:25:18.849 UTC [32] STATEMENT:  SELECT job_id FROM weir.recover_v1($1,$2,$3)
`, `2026-12-01 09:25:18.925 UTC [39] ERROR:  deadlock detected
2026-12-01 09:25:18.925 UTC [39] DETAIL:  Process 39 waits for ShareLock on transaction 1393; blocked by process 32.
	Process 32 waits for ShareLock on transaction 1398; blocked by process 39.
	Process 39: SELECT job_id, freed FROM weir.delete_v1($1)
	Process 32: SELECT job_id FROM weir.recover_v1($1,$2,$3)
2026-12-01 09:25:18.925 UTC [39] HINT:  See server log for query details.
2026-12-01 09:25:18.925 UTC [39] CONTEXT:  while locking tuple (33,36) in relation "live"
2026-12-01 09:25:18.925 UTC [39] STATEMENT:  SELECT job_id, freed FROM weir.delete_v1($1)
`
	elsewhere := strings.ReplaceAll(waits, "while locking updated version (37,89) of tuple", "while locking tuple (37,89)")
	ordered := strings.ReplaceAll(waits, "PL/pgSQL", "SQL statement \"SELECT FROM (SELECT l.id FROM weir.live AS l ORDER BY l.id FOR UPDATE) AS x\"\n\tPL/pgSQL")
	const victim = `2026-12-01 15:28:18.925 UTC [39] ERROR:  deadlock detected
2026-12-01 15:28:18.925 UTC [39] DETAIL:  Process 39 waits for ShareLock on transaction 3084; blocked by process 42.
	Process 42 waits for ShareLock on transaction 3083; blocked by process 39.
	Process 39: SELECT id FROM weir.claim_v1($1,$2)
	Process 42: UPDATE weir.live SET keys = $1 WHERE id = ANY (ARRAY(SELECT id FROM weir.live ORDER BY id LIMIT 20 FOR UPDATE))
2026-12-01 15:28:18.925 UTC [39] HINT:  See server log for query details.
2026-12-01 15:28:18.925 UTC [39] CONTEXT:  while locking updated version (84,45) of tuple in relation "live"
	SQL statement "SELECT array_agg(x.ctid) FROM (SELECT c.ctid FROM weir.live AS c ORDER BY c.id LIMIT v_left FOR UPDATE SKIP LOCKED) AS x"
2026-12-01 15:28:18.925 UTC [39] STATEMENT:  SELECT id FROM weir.claim_v1($1,$2)
`
	for _, c := range []struct {
		name, log string
		faults    int
	}{
		{"explained", waits + circle, 0},
		{"the one that skips is rolled back, the other does not skip", victim, 0},
		{"no such wait", circle, 1},
		{"waits for the row itself", elsewhere + circle, 1},
		{"waits and does not skip", ordered + circle, 1},
		{"waited so before", waits + elsewhere + circle, 1},
	} {
		if n, faults := judgeDeadlocks(c.log); n != 1 || len(faults) != c.faults {
			t.Errorf("%s: %d deadlocks, faults %q", c.name, n, faults)
		}
	}
}
