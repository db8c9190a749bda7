package migrate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

// What the next release might do: its version adds a column to the busiest table, then a table.
const next = migrate.Latest + 1

func additions(schema string) []string {
	return []string{
		`-- column: for the test. ` + "\n" + `ALTER TABLE ` + schema + `.live ADD COLUMN shard smallint`,
		`-- shards: for the test. ` + "\n" + `CREATE TABLE ` + schema + `.shards (n int) -- the end`,
	}
}

func TestOldAndNewBinariesMayStartAtOnce(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	cfg := migrate.Config{Schema: testenv.Namespace(t)}
	ctx := bounded(t)
	var (
		wg   sync.WaitGroup
		done [10][]int64
		errs [10]error
	)
	for i := range done {
		pool := testenv.Pool(t, url)
		wg.Go(func() {
			if i%2 == 0 {
				done[i], errs[i] = migrate.Up(ctx, pool, cfg)
				return
			}
			done[i], errs[i] = migrate.UpOfNext(ctx, pool, cfg, func() []string { return additions(cfg.Schema) })
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(done[:]...)
	slices.Sort(got)
	if !slices.Equal(got, []int64{migrate.Latest, next}) {
		t.Errorf("applied: got %v, want each version once", got)
	}
	pool := testenv.Pool(t, url)
	if err := migrate.Check(ctx, pool, cfg); err != nil {
		t.Errorf("the old binary: %v", err)
	}
	if n := locksAtRest(t, pool, cfg.Schema); n != "0" {
		t.Errorf("%s advisory locks at rest", n)
	}
}

func TestALongTransactionHoldsUpAMigrationButNobodyBehindIt(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	cfg := migrate.Config{Schema: testenv.Namespace(t), LockTimeout: 20 * time.Millisecond}
	up(t, pool, cfg)
	release := hold(t, pool, `SELECT count(*) FROM `+cfg.Schema+`.live`)

	var tries atomic.Int32
	type result struct {
		applied []int64
		err     error
	}
	ended := make(chan result, 1)
	ctx := bounded(t)
	go func() {
		applied, err := migrate.UpOfNext(ctx, pool, cfg, func() []string {
			tries.Add(1)
			return additions(cfg.Schema)
		})
		ended <- result{applied, err}
	}()
	testenv.Eventually(t, 20*time.Second, func() bool {
		execSQL(t, pool, `INSERT INTO `+cfg.Schema+`.live (ready_at, max_attempts, size, priority, id, queue, kind)
			VALUES (now(), 1, 2, 5, gen_random_uuid(), 'q', 'k')`) // a worker of the release before
		return tries.Load() >= 3
	}, "it is not tried again")
	release()
	got := <-ended
	if got.err != nil || !slices.Equal(got.applied, []int64{next}) {
		t.Errorf("after the transaction: applied %v, %v", got.applied, got.err)
	}
}

func TestAMigrationThatFindsNoEndOfALongTransactionSaysSo(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	cfg := migrate.Config{Schema: testenv.Namespace(t), LockTimeout: time.Millisecond}
	up(t, pool, cfg)
	hold(t, pool, `SELECT count(*) FROM `+cfg.Schema+`.live`)
	ctx, cancel := context.WithCancel(bounded(t))
	tries := 0
	applied, err := migrate.UpOfNext(ctx, pool, cfg, func() []string {
		if tries++; tries == 2 {
			time.AfterFunc(10*time.Millisecond, cancel) // in the pause, or in the statement
		}
		return additions(cfg.Schema)
	})
	if !errors.Is(err, context.Canceled) || len(applied) > 0 {
		t.Errorf("applied %v, %v", applied, err)
	}
	if s := status(t, pool, cfg); s.Current != migrate.Latest {
		t.Errorf("at version %d", s.Current)
	}
}

func TestAVersionThatFailsLeavesNothingAndIsNamed(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	cfg := migrate.Config{Schema: testenv.Namespace(t)}
	bad := func() []string {
		return append(additions(cfg.Schema), "-- divide: for the test.\nSELECT 1; SELECT 1/0")
	}
	applied, err := migrate.UpOfNext(bounded(t), pool, cfg, bad)
	if !slices.Equal(applied, []int64{migrate.Latest}) {
		t.Errorf("applied %v, want what came before", applied)
	}
	for _, want := range []string{cfg.Schema, "version 2: divide: ", "division by zero"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if s := status(t, pool, cfg); s.Current != migrate.Latest {
		t.Errorf("at version %d", s.Current)
	}
	if left := value(t, pool, `SELECT coalesce(to_regclass($1)::text, '')`, cfg.Schema+".shards"); left != "" {
		t.Errorf("%s is left", left)
	}
	if n := locksAtRest(t, pool, cfg.Schema); n != "0" {
		t.Errorf("%s advisory locks at rest", n)
	}
	again, err := migrate.UpOfNext(bounded(t), pool, cfg, func() []string { return additions(cfg.Schema) })
	if err != nil || !slices.Equal(again, []int64{next}) {
		t.Errorf("mended: applied %v, %v", again, err)
	}
}

func TestAScriptGoesOnFromAVersion(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	cfg := migrate.Config{Schema: testenv.Namespace(t)}
	up(t, pool, cfg)
	text, err := migrate.ScriptOfNext(migrate.Latest, cfg, func() []string { return additions(cfg.Schema) })
	if err != nil {
		t.Fatal(err)
	}
	if err := runWhole(t, pool, text); err != nil {
		t.Fatal(err)
	}
	if s := status(t, pool, cfg); s.Current != next {
		t.Errorf("at version %d", s.Current)
	}
}

// hold runs a statement in a transaction that stays open until release is called or the test ends.
func hold(t *testing.T, pool *pgxpool.Pool, sql string) (release func()) {
	t.Helper()
	tx, err := pool.Begin(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback(context.Background()) } // the second time it is closed already
	t.Cleanup(release)
	if _, err := tx.Exec(bounded(t), sql); err != nil {
		t.Fatal(err)
	}
	return release
}
