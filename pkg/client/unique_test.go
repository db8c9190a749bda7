package client_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

var byArgs = job.Options{Unique: job.Unique{ByArgs: true}}

// byKey returns options for a unique key.
func byKey(key string, edit ...func(*job.Unique)) job.Options {
	u := job.Unique{Key: key}
	for _, f := range edit {
		f(&u)
	}
	return job.Options{Unique: u}
}

func replace(u *job.Unique) { u.OnConflict = job.Replace }
func waiting(u *job.Unique) { u.While = job.Waiting }
func fail(u *job.Unique)    { u.OnConflict = job.Fail }

// end removes a job as its completion does, in one statement.
func (r rig) end(tb testing.TB, id job.ID) {
	tb.Helper()
	r.exec(tb, `WITH s AS (INSERT INTO %[1]s.sessions (id, lease_until, started_at, lease_ms, pid, role, host, version)
		VALUES ('`+id.UUID()+`', clock_timestamp() + interval '1 h', clock_timestamp(), 15000, 1, 'worker', 'test', 'test') ON CONFLICT DO NOTHING)
		UPDATE %[1]s.live SET state = 1, session = '`+id.UUID()+`', attempt = 1, fence = fence + 1, claimed_at = clock_timestamp() WHERE id = '`+id.UUID()+`'`)
	r.exec(tb, `SELECT %[1]s.finish_v1(session, ARRAY[id], ARRAY[fence], NULL) FROM %[1]s.live WHERE id = '`+id.UUID()+`'`)
	if n := r.count(tb, "outcomes", "id = $1", [16]byte(id)); n != 1 {
		tb.Fatalf("job %s has %d outcomes", id, n)
	}
}

func TestOneOfManyCallersWithAUniqueKeyWinsAndAllHaveItsID(t *testing.T) {
	t.Parallel()
	wide := poolBy(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 24 })
	_, namespace := testenv.Schema(t)
	r := clientOn(t, wide, namespace)
	errRolledBack := errors.New("rolled back")
	for round := range 4 {
		key := byKey(fmt.Sprintf("race %d", round))
		var (
			mu  sync.Mutex
			ids = map[job.ID]int{}
			wg  sync.WaitGroup
		)
		for i := range 64 {
			wg.Go(func() {
				var e client.Enqueued
				inTx := func(tx pgx.Tx) (err error) {
					if e, err = r.EnqueueTx(t.Context(), tx, welcome{UserID: int64(i)}, key); err != nil {
						return err
					}
					if i%2 == 1 && !e.Duplicate { // a winner, and no transaction of another kind hides it
						time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
						return errRolledBack
					}
					return nil
				}
				var err error
				if i%4 == 0 {
					e, err = r.Enqueue(t.Context(), welcome{UserID: int64(i)}, key)
				} else {
					err = r.InTx(t.Context(), inTx)
				}
				for errors.Is(err, errRolledBack) { // it tries again, as its caller would
					err = r.InTx(t.Context(), func(tx pgx.Tx) (err error) {
						e, err = r.EnqueueTx(t.Context(), tx, welcome{UserID: int64(i)}, key)
						return err
					})
				}
				if err != nil {
					t.Errorf("%v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[e.ID]++
			})
		}
		wg.Wait()
		if len(ids) != 1 {
			t.Fatalf("callers have the ids %v", ids)
		}
		for id := range ids {
			if n := r.count(t, "live", "id = $1", [16]byte(id)); n != 1 {
				t.Errorf("the id that all have is live %d times", n)
			}
		}
		if n := r.count(t, "live", "true"); n != round+1 {
			t.Errorf("%d live jobs after %d rounds", n, round+1)
		}
	}
}

func TestALoserWaitsForAnOpenWinnerAndTakesItsPlaceIfThatRollsBack(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, commits := range []bool{true, false} {
		key := byKey(fmt.Sprint("commits ", commits))
		tx, err := r.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		winner, err := r.EnqueueTx(t.Context(), tx, welcome{UserID: 1}, key)
		if err != nil {
			t.Fatal(err)
		}
		loser := r.start(t.Context(), welcome{UserID: 2}, key)
		r.blocked(t, 1)
		select {
		case got := <-loser:
			t.Fatalf("the loser did not wait: %+v", got)
		default:
		}
		if commits {
			err = tx.Commit(t.Context())
		} else {
			err = tx.Rollback(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		got := <-loser
		if got.err != nil || got.enqueued.Duplicate != commits || (got.enqueued.ID == winner.ID) != commits {
			t.Errorf("winner commits %v: %+v, want the winner's %s exactly if it was committed", commits, got, winner.ID)
		}
	}
}

// blocked waits until n statements of this schema wait for a transaction.
func (r rig) blocked(tb testing.TB, n int) {
	tb.Helper()
	testenv.Eventually(tb, 5*time.Second, func() bool {
		var waiting int
		const query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 in query) > 0"
		if err := r.pool.QueryRow(context.Background(), query, r.namespace).Scan(&waiting); err != nil {
			tb.Fatal(err)
		}
		return waiting == n
	}, "not %d statements wait", n)
}

func TestAnOpenTransactionWithAKeyHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	r := open(t)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.EnqueueTx(t.Context(), tx, welcome{}, byKey("open")); err != nil {
		t.Fatal(err)
	}
	var losers []<-chan reply
	for range 20 { // more than the pool has connections
		losers = append(losers, r.start(t.Context(), welcome{}, byKey("open")))
	}
	r.blocked(t, 1)
	for i := range 50 {
		ctx := within(t, time.Second)
		if _, err := r.Enqueue(ctx, welcome{UserID: int64(i)}); err != nil {
			t.Fatalf("a job without a key: %v", err)
		}
		if _, err := r.Enqueue(ctx, welcome{UserID: int64(i)}, byKey(fmt.Sprint("other ", i))); err != nil {
			t.Fatalf("a job with another key: %v", err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	won := 0
	for _, l := range losers {
		got := <-l
		if got.err != nil {
			t.Errorf("%v", got.err)
		}
		if !got.enqueued.Duplicate {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d of the losers took the place of the winner", won)
	}
}

func TestAKeyThatStaysUndecidedIsATypedError(t *testing.T) {
	t.Parallel()
	r := open(t, func(cfg *client.Config) { cfg.Timeout = 2 * time.Second })
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := r.EnqueueTx(t.Context(), tx, welcome{}, byKey("k")); err != nil {
		t.Fatal(err)
	}
	_, err = r.Enqueue(t.Context(), welcome{}, byKey("k"))
	var unknown *client.UnknownError
	if !errors.Is(err, client.ErrUndecided) || errors.As(err, &unknown) {
		t.Errorf("%v, want ErrUndecided", err)
	}
	if n := r.count(t, "live", "true"); n != 0 {
		t.Errorf("%d jobs were stored", n)
	}
}

func TestAConflictWritesNoNewVersionOfTheWinner(t *testing.T) {
	t.Parallel()
	r := open(t)
	first := r.enqueue(t, welcome{UserID: 7}, byArgs)
	running := r.enqueue(t, welcome{UserID: 8}, byKey("runs"))
	r.exec(t, "UPDATE %s.live SET state = 1, session = id WHERE id = '"+running.UUID()+"'")
	version := func() (v string) {
		query := fmt.Sprintf("SELECT string_agg(ctid::text || xmin::text || xmax::text, ' ' ORDER BY id) FROM %[1]s.live", r.namespace)
		if err := r.pool.QueryRow(t.Context(), query).Scan(&v); err != nil {
			t.Fatal(err)
		}
		query = fmt.Sprintf("SELECT $1 || string_agg(ctid::text || xmin::text, ' ' ORDER BY job_id) FROM %[1]s.uniques", r.namespace)
		if err := r.pool.QueryRow(t.Context(), query, v).Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := version()
	for range 50 {
		for _, o := range []job.Options{byArgs, byArgs.Merge(job.Options{Unique: job.Unique{ByArgs: true, While: job.Waiting}})} {
			if e, err := r.Enqueue(t.Context(), welcome{UserID: 7}, o); err != nil || !e.Duplicate || e.ID != first {
				t.Fatalf("%+v %v, want a duplicate of %s", e, err, first)
			}
		}
		if e, err := r.Enqueue(t.Context(), welcome{}, byKey("runs", replace)); err != nil || !e.Duplicate || e.ID != running {
			t.Fatalf("%+v %v, want a duplicate of %s, which runs", e, err, running)
		}
	}
	if after := version(); after != before {
		t.Errorf("rows of winners changed from %s to %s", before, after)
	}
}

func TestWhatCountsAsTheSameArgs(t *testing.T) {
	t.Parallel()
	r := open(t)
	first := r.enqueue(t, tagged{ID: 1 << 60, Locale: "de"}, byArgs)
	for _, c := range []struct {
		name string
		args job.Args
		same bool
	}{
		{"another field without the tag", tagged{ID: 1 << 60, Locale: "en"}, true},
		{"a tagged field", tagged{ID: 1<<60 + 1, Locale: "de"}, false},
		{"a tagged field of a struct within", tagged{ID: 1 << 60, Inner: inner{Tenant: "x"}}, false},
		{"another kind", welcome{UserID: 1 << 60}, false},
	} {
		e, err := r.Enqueue(t.Context(), c.args, byArgs)
		if err != nil || e.Duplicate != c.same || (e.ID == first) != c.same {
			t.Errorf("%s: %+v %v, want the same: %v", c.name, e, err, c.same)
		}
	}
}

type inner struct {
	Tenant string `json:"tenant" weir:"unique"`
	Other  int
}

type tagged struct {
	ID     int64  `json:"id" weir:"unique"`
	Locale string `json:"locale"`
	Inner  inner  `json:"inner"`
}

func (tagged) Kind() string { return "tagged" }

func TestAKeyDiesWithItsJobAndAWindowOutlivesIt(t *testing.T) {
	t.Parallel()
	r := open(t)
	hour := func(u *job.Unique) { u.For = time.Hour }
	plain, window := r.enqueue(t, welcome{}, byKey("plain")), r.enqueue(t, welcome{}, byKey("window", hour))
	r.end(t, plain)
	r.end(t, window)
	if e, err := r.Enqueue(t.Context(), welcome{}, byKey("plain")); err != nil || e.Duplicate {
		t.Errorf("after its job has ended: %+v %v", e, err)
	}
	for _, o := range []job.Options{byKey("window"), byKey("window", replace), byKey("window", waiting)} {
		if e, err := r.Enqueue(t.Context(), welcome{}, o); err != nil || !e.Duplicate || e.ID != window {
			t.Errorf("within its window: %+v %v, want %s", e, err, window)
		}
	}
	r.exec(t, "UPDATE %s.uniques SET until = clock_timestamp() - interval '1 ms'")
	if e, err := r.Enqueue(t.Context(), welcome{}, byKey("window")); err != nil || e.Duplicate {
		t.Errorf("after its window: %+v %v", e, err)
	}
}

func TestReplaceIsADebounce(t *testing.T) {
	t.Parallel()
	r := open(t)
	debounce := byKey("index:42", waiting, replace)
	running := r.enqueue(t, welcome{UserID: 0}, debounce)
	r.exec(t, "UPDATE %s.live SET state = 1, session = id, claimed_at = clock_timestamp()")
	last := job.ID{}
	for i := range 5 {
		e, err := r.Enqueue(t.Context(), welcome{UserID: int64(i + 1)}, debounce)
		if err != nil || e.Duplicate || e.Replaced != last {
			t.Fatalf("%+v %v, want one that replaces %s", e, err, last)
		}
		last = e.ID
	}
	if n := r.count(t, "live", "true"); n != 2 {
		t.Errorf("%d live jobs, want one that runs and one that waits", n)
	}
	if n := r.count(t, "dead", "state = 2 AND error LIKE 'superseded by %%'"); n != 4 {
		t.Errorf("%d superseded jobs, want 4", n)
	}
	if n := r.count(t, "live", "id = $1 AND state = 1 AND flags & 16 = 16", [16]byte(running)); n != 1 {
		t.Errorf("the job that runs is not marked")
	}
	row, err := r.Job(t.Context(), last)
	if err != nil || string(row.Payload) != `{"user_id":5}` {
		t.Errorf("the newest has the payload %s, %v", row.Payload, err)
	}
}

func TestFailNamesTheWinnerAndStoresNothing(t *testing.T) {
	t.Parallel()
	r := open(t)
	winner := r.enqueue(t, welcome{UserID: 1}, byKey("k"))
	same := func(u *job.Unique) { u.SameArgs = true }
	var dup *client.DuplicateError
	if _, err := r.Enqueue(t.Context(), welcome{UserID: 2}, byKey("k", fail)); !errors.As(err, &dup) || dup.ID != winner || !dup.Differs {
		t.Errorf("%v, want a DuplicateError of %s with other args", err, winner)
	}
	if e, err := r.Enqueue(t.Context(), welcome{UserID: 1}, byKey("k", same)); err != nil || e.ID != winner {
		t.Errorf("the same args: %+v %v", e, err)
	}
	if _, err := r.Enqueue(t.Context(), welcome{UserID: 2}, byKey("k", same)); !errors.As(err, &dup) || dup.ID != winner {
		t.Errorf("%v, want a DuplicateError: the args differ", err)
	}
	many := []job.Spec{{Args: welcome{UserID: 3}}, {Args: welcome{UserID: 4}, Options: byKey("free")}, {Args: welcome{UserID: 5}, Options: byKey("k", fail)}}
	if _, err := r.EnqueueMany(t.Context(), many); !errors.As(err, &dup) || dup.Index != 2 || dup.ID != winner {
		t.Errorf("%v, want a DuplicateError of job 2", err)
	}
	if n := r.count(t, "jobs", "true"); n != 1 {
		t.Errorf("%d jobs were stored, want the winner alone", n)
	}
	if n := r.count(t, "uniques", "true"); n != 1 {
		t.Errorf("%d keys are taken, want that of the winner", n)
	}
}

func TestManyUniqueJobsInOneCall(t *testing.T) {
	t.Parallel()
	r := open(t)
	before := r.enqueue(t, welcome{}, byKey("there"))
	specs := []job.Spec{
		{Args: welcome{UserID: 1}, Options: byKey("a")}, {Args: welcome{UserID: 2}}, {Args: welcome{UserID: 3}, Options: byKey("a")},
		{Args: welcome{UserID: 4}, Options: byKey("there")}, {Args: welcome{UserID: 5}, Options: byKey("b", replace)}, {Args: welcome{UserID: 6}, Options: byKey("b", replace)},
	}
	got, err := r.EnqueueMany(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Duplicate || got[1].Duplicate || !got[2].Duplicate || got[2].ID != got[0].ID || got[3].ID != before || !got[3].Duplicate {
		t.Errorf("kept: %+v", got[:4])
	}
	if got[4].Duplicate || got[5].Duplicate || got[5].Replaced != got[4].ID {
		t.Errorf("replaced: %+v", got[4:])
	}
	if n := r.count(t, "live", "true"); n != 4 {
		t.Errorf("%d live jobs, want 4", n)
	}
}

func TestAUniqueJobInATransactionOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	r := open(t)
	db := stdlib.OpenDBFromPool(r.pool)
	defer db.Close()
	send := func(commit bool, o job.Options) (e client.Enqueued) {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if e, err = r.EnqueueSQLTx(t.Context(), tx, welcome{UserID: 1}, o); err != nil {
			t.Fatal(err)
		}
		if commit {
			err = tx.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	send(false, byArgs)
	first := send(true, byArgs)
	second := send(true, byArgs)
	third := send(true, job.Options{Unique: job.Unique{ByArgs: true, OnConflict: job.Replace}})
	if first.Duplicate || !second.Duplicate || second.ID != first.ID || third.Replaced != first.ID {
		t.Errorf("%+v, %+v, %+v: want one stored, its duplicate, its successor", first, second, third)
	}
}

func TestTheSameIDAgainTakesNoKey(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := r.IDs().New()
	o := byKey("k", replace)
	o.ID = id
	r.enqueue(t, welcome{}, o)
	r.end(t, id)
	other := r.enqueue(t, welcome{}, byKey("k"))
	for _, retry := range []job.Options{o, {ID: id, Unique: job.Unique{Key: "free"}}} {
		if e, err := r.Enqueue(t.Context(), welcome{}, retry); err != nil || !e.Duplicate || e.ID != id {
			t.Errorf("%+v %v, want a duplicate of itself", e, err)
		}
	}
	if n := r.count(t, "uniques", "job_id <> $1", [16]byte(other)); n != 0 {
		t.Errorf("%d keys belong to a job that is over", n)
	}
	if n := r.count(t, "live", "id = $1", [16]byte(other)); n != 1 {
		t.Errorf("a retry of what is over replaced another job")
	}
}
