//go:build unix

package chaos_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

// tool is the program weir, built from this tree.
type tool struct {
	rig *rig
	bin string
}

// buildTool returns the path of a fresh one.
func buildTool(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "weir")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/weirq/weir/cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("build weir: %v: %s", err, out)
	}
	return bin
}

// run runs it as so many processes at once, and returns what each has written.
func (w tool) run(n int, args ...string) []string {
	w.rig.t.Helper()
	out := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			cmd := exec.CommandContext(w.rig.t.Context(), w.bin, args...)
			cmd.Dir = w.rig.dir
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.rig.dir, "USER=test", "WEIR_POSTGRES_URL=" + w.rig.url, "WEIR_NAMESPACE=" + w.rig.namespace}
			text, err := cmd.CombinedOutput()
			if err != nil {
				w.rig.t.Errorf("weir %s: %v: %s", strings.Join(args, " "), err, text)
			}
			out[i] = string(text)
		})
	}
	wg.Wait()
	return out
}

// containing counts the texts that hold one.
func containing(list []string, text string) (n int) {
	for _, s := range list {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

func TestMigrationsAreRunTenAtOnceAndUnderLoad(t *testing.T) {
	t.Parallel()
	bin := buildTool(t)
	t.Run("a new schema", func(t *testing.T) {
		t.Parallel()
		makeOneSchema(t, bin)
	})
	t.Run("to the next version and back", func(t *testing.T) {
		t.Parallel()
		goOnThroughVersions(t, bin)
	})
}

// Ten processes make the schema at once: one does it, the others find it done, and jobs run on it.
func makeOneSchema(t *testing.T, bin string) {
	r := newRig(t)
	weir := tool{r, bin}
	r.namespace = testenv.Namespace(t)
	r.client = r.clientOn(r.pool)
	out := weir.run(10, "migrate", "up")
	if done, idle := containing(out, "version 1 applied"), containing(out, "nothing to do"); done != 1 || idle != 9 {
		t.Errorf("%d applied the version and %d had nothing to do, want 1 and 9: %q", done, idle, out)
	}
	r.sweeper("sweeper")
	r.worker("worker")
	r.enqueueMany(50, work{})
	r.awaitEmpty(20 * time.Second)
	r.check(audit{})
}

// further is what a release after this one might do to the schema, which may only add to it: columns in every table that
// jobs pass through, some with a default, a table, an index, and the next version of every function that has one.
var further = []string{
	"ALTER TABLE weir.live ADD COLUMN shard smallint, ADD COLUMN origin text DEFAULT 'here'",
	"ALTER TABLE weir.jobs ADD COLUMN origin text DEFAULT 'here', ADD COLUMN shard smallint",
	"ALTER TABLE weir.jobs_kept ADD COLUMN origin text DEFAULT 'here', ADD COLUMN shard smallint",
	"ALTER TABLE weir.outcomes ADD COLUMN cost int",
	"ALTER TABLE weir.dead ADD COLUMN cost int DEFAULT 0",
	"ALTER TABLE weir.attempts ADD COLUMN cost int",
	"ALTER TABLE weir.sessions ADD COLUMN zone text DEFAULT ''",
	"ALTER TABLE weir.locks ADD COLUMN since timestamptz",
	"ALTER TABLE weir.waits ADD COLUMN since timestamptz",
	"ALTER TABLE weir.uniques ADD COLUMN since timestamptz",
	"CREATE TABLE weir.shards (n int PRIMARY KEY)",
	"CREATE INDEX live_shard ON weir.live (shard) WHERE shard IS NOT NULL",
	`DO $do$
		DECLARE f record;
		BEGIN
			FOR f IN SELECT pg_get_functiondef(oid) AS text FROM pg_proc WHERE pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'weir.live'::regclass) AND proname LIKE '%\_v1' LOOP
				EXECUTE replace(f.text, '_v1(', '_v2(');
			END LOOP;
		END $do$`,
	"INSERT INTO weir.migrations (version, environment) SELECT 2, environment FROM weir.migrations WHERE version = 1",
}

// undone is further taken back.
var undone = []string{
	"DELETE FROM weir.migrations WHERE version = 2",
	"ALTER TABLE weir.live DROP COLUMN shard, DROP COLUMN origin",
	"ALTER TABLE weir.jobs DROP COLUMN origin, DROP COLUMN shard",
	"ALTER TABLE weir.jobs_kept DROP COLUMN origin, DROP COLUMN shard",
	"ALTER TABLE weir.outcomes DROP COLUMN cost",
	"ALTER TABLE weir.dead DROP COLUMN cost",
	"ALTER TABLE weir.attempts DROP COLUMN cost",
	"ALTER TABLE weir.sessions DROP COLUMN zone",
	"ALTER TABLE weir.locks DROP COLUMN since",
	"ALTER TABLE weir.waits DROP COLUMN since",
	"ALTER TABLE weir.uniques DROP COLUMN since",
	"DROP TABLE weir.shards",
	`DO $do$
		DECLARE f record;
		BEGIN
			FOR f IN SELECT oid::regprocedure AS name FROM pg_proc WHERE pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'weir.live'::regclass) AND proname LIKE '%\_v2' LOOP
				EXECUTE format('DROP FUNCTION %s', f.name);
			END LOOP;
		END $do$`,
}

// withoutLast takes the last partition of each table away, tomorrow's or a later one, which is empty: a sweeper has to make it.
const withoutLast = `DO $do$
	DECLARE p record;
	BEGIN
		FOR p IN SELECT max(c.relname::text) AS name FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
			WHERE i.inhparent IN ('weir.jobs'::regclass, 'weir.outcomes'::regclass, 'weir.dead'::regclass, 'weir.attempts'::regclass)
				AND c.relname NOT LIKE '%default' GROUP BY i.inhparent LOOP
			EXECUTE format('DROP TABLE weir.%I', p.name);
		END LOOP;
	END $do$`

// alter applies statements in one transaction, and again when a lock was not to be had or there was a deadlock, as migrate does.
func (r *rig) alter(statements []string) {
	r.t.Helper()
	script := "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL check_function_bodies = off;\n" + strings.Join(statements, ";\n") + "; COMMIT"
	script = r.in(script)
	var err error
	for try := range 20 {
		conn, errC := r.pool.Acquire(r.t.Context())
		must(r.t, errC)
		_, err = conn.Conn().PgConn().Exec(r.t.Context(), script).ReadAll()
		if err != nil {
			_, errC = conn.Exec(r.t.Context(), "ROLLBACK")
			must(r.t, errC)
		}
		conn.Release()
		if err == nil {
			return
		}
		if text := err.Error(); !strings.Contains(text, "55P03") && !strings.Contains(text, "40P01") {
			break
		}
		pause(time.Duration(try+1) * 100 * time.Millisecond)
	}
	r.t.Fatalf("change the schema: %v", err)
}

// A schema of the next version in front of this release, as in an upgrade that migrates first, and back again: the processes
// that were there before go on, those that start on it work, one that dies there is recovered, partitions are made, and
// `weir migrate up` of this release, run ten at once all the while, does nothing. The next version is a hypothetical one: no
// release has come before this, so that no older program meets this schema here.
func goOnThroughVersions(t *testing.T, bin string) {
	r := newRig(t)
	weir := tool{r, bin}
	s := r.start(spec{Role: "sweeper", Name: "sweeper", Rotate: time.Hour})
	victim := r.worker("victim", slots(5))
	gate, open := r.gate()
	held := r.enqueueMany(5, work{Gate: gate})
	r.awaitEvents(20*time.Second, 5, started, "victim")
	r.worker("old", slots(20))
	began := time.Now()
	producer := r.start(spec{Role: "producer", Name: "producer", Rate: pick(50, 100), Mix: true, Job: work{For: 5 * time.Millisecond}})
	r.worker("older", slots(20))
	s.awaitTrust()

	r.allIdle(weir.run(10, "migrate", "up"))
	var out []string
	var wg sync.WaitGroup
	wg.Go(func() { out = weir.run(10, "migrate", "up") })
	r.alter(further)
	wg.Wait()
	r.allIdle(out)
	if err := migrate.Check(t.Context(), r.pool, migrate.Config{Schema: r.namespace}); err != nil {
		t.Errorf("this release and the next one's schema: %v", err)
	}
	r.alter([]string{withoutLast})
	before := r.partitions("%")
	r.start(spec{Role: "sweeper", Name: "sweeper-new", Rotate: time.Second})
	fresh := r.worker("fresh", slots(20))
	more := r.start(spec{Role: "producer", Name: "producer-new", Rate: pick(25, 50), Mix: true, Job: work{For: 5 * time.Millisecond}})
	killed := time.Now()
	victim.kill()
	r.allIdle(weir.run(10, "migrate", "up"))
	failing := r.enqueueMany(5, work{Do: doFail}, job.Options{MaxAttempts: 1})
	r.buried(failing)
	for _, id := range failing {
		must(t, r.client.Retry(t.Context(), id))
	}
	r.starts(failing, 2)
	r.buried(failing)
	r.startWithin(held, 2, killed, recoverBound(s))
	testenv.Eventually(t, 15*time.Second+crowd(), func() bool { return r.partitions("%") > before }, "no partition was made")
	r.alter(undone)
	r.allIdle(weir.run(10, "migrate", "up"))
	pause(time.Second)
	over := time.Now()

	producer.stop()
	more.stop()
	open()
	r.awaitEmpty(30 * time.Second)
	r.check(audit{starts: 3, attempts: 2, dead: len(failing)})
	runs, limit := r.keyRuns()
	r.checkHolders(endedWith(runs, "victim", killed), limit)
	r.stillRun(s, fresh)
	late := r.lateness(began, killed.Add(-time.Second))
	late = append(late, r.lateness(killed.Add(recoverBound(s)), over)...)
	all := readLedgers(t, r.dir)
	t.Logf("%d acknowledged, %d refused; jobs without keys started %v after their time at the median, p99 %v, worst %v; %d partitions were made",
		len(all.of(acked)), len(all.of(refused)), quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1), r.partitions("%")-before)
	errs := map[string]int{}
	for _, e := range all.of(refused) {
		errs[e.Err]++
	}
	for text, n := range errs {
		t.Errorf("%d enqueues were refused: %s", n, text)
	}
	// Four times ten programs at once, beside other tests: three times the crowd.
	if worst, most := quantile(late, 1), pollAlone+time.Second+3*crowd(); worst > most {
		t.Errorf("a job started %v after its time, at most %v", worst, most)
	}
	if n := r.count("SELECT count(*) FROM weir.sessions WHERE dead_at IS NOT NULL AND state <> 'draining' AND version <> 'victim'"); n != 0 {
		t.Errorf("%d living processes were called dead", n)
	}
}

// buried waits until jobs that are to be discarded are.
func (r *rig) buried(list []job.ID) {
	r.t.Helper()
	testenv.Eventually(r.t, 15*time.Second+crowd(), func() bool { return r.count("SELECT count(*) FROM weir.dead") == len(list) },
		"%d jobs are not discarded: %v", len(list), lazily(r.left))
}

// allIdle checks that none of the migrations has changed anything.
func (r *rig) allIdle(out []string) {
	r.t.Helper()
	if n := containing(out, fmt.Sprintf("nothing to do, it has version %d", migrate.Latest)); n != len(out) {
		r.t.Errorf("%d of %d migrations had nothing to do: %q", n, len(out), out)
	}
}
