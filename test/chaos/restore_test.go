//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirq/weir/internal/embedded"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
)

// archive keeps the write-ahead log of the rig's server, which must have archive_mode on, in a directory of its own.
func (r *rig) archive() (dir string) {
	r.t.Helper()
	dir, err := os.MkdirTemp("", "weir-archive-*")
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, os.RemoveAll(dir)) })
	if os.Geteuid() == 0 {
		owner := ownerOf(r.t, ask[string](r, "SHOW data_directory"))
		must(r.t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	}
	r.exec(fmt.Sprintf(`ALTER SYSTEM SET archive_command = 'cp %%p "%s/%%f"'`, dir))
	r.exec("SELECT pg_reload_conf()")
	return dir
}

// awaitArchived returns when the archive has all that is committed now.
func (r *rig) awaitArchived() {
	r.t.Helper()
	segment := ask[string](r, "SELECT pg_walfile_name(pg_switch_wal())")
	testenv.Eventually(r.t, 30*time.Second+crowd(), func() bool {
		return r.count("SELECT count(*) FROM pg_stat_archiver WHERE last_archived_wal >= $1", segment) == 1
	}, "segment %s is not archived", segment)
}

// restore makes the rig's server what it was at an instant, from a copy that is older and the archive. Processes come to it when
// their link leads there.
func (r *rig) restore(backup, archive, instant string) {
	r.t.Helper()
	data := filepath.Join(backup, "data")
	must(r.t, os.WriteFile(filepath.Join(data, "recovery.signal"), nil, 0o600))
	if os.Geteuid() == 0 {
		owner := ownerOf(r.t, data)
		must(r.t, os.Chown(filepath.Join(data, "recovery.signal"), int(owner.Uid), int(owner.Gid)))
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	server, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Dir: data, Settings: map[string]string{
		"restore_command":      fmt.Sprintf(`cp "%s/%%f" %%p`, archive),
		"recovery_target_time": instant, "recovery_target_action": "promote",
	}})
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, server.Close()) })
	r.postgres, r.pool = server, testenv.Pool(r.t, server.URL())
	testenv.Eventually(r.t, time.Minute, func() bool { return r.count("SELECT 1 WHERE NOT pg_is_in_recovery()") == 1 },
		"the server is still being restored")
	r.client = r.clientOn(r.pool)
}

// P1, P4: Postgres is lost and restored, from a base backup and the archive of its log, to an instant in the middle of the load,
// while workers, sweeper, producers and Redis live on and know more than it. What was acknowledged before the instant is
// there and ends; what was done before it is not done again; what was running then finishes, or runs again if it had ended
// since; no key has more holders than its limit among the claims that the database knows of, and Redis, which remembers
// others, keeps none of them. Short: two seconds are lost instead of ten.
func TestADatabaseRestoredToAnInstantGoesOnFromThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, privatePostgres("archive_mode", "on"), privateRedis())
	tr := &trial{rig: r, rdb: testenv.Client(t, r.redisURL)}
	archive := r.archive()
	backup := r.copyServer(r.url, "-X", "none")
	link := r.proxy()
	r.url = link.Through(t, r.url) // of all processes
	sweeper := r.start(spec{Role: "sweeper", Name: "sweeper"})
	workers := []*process{r.worker("one", twoQueues), r.worker("two", twoQueues)}
	running, repeating, waiting, late := r.gatedSet(), r.gatedSet(), r.gatedSet(), r.gatedSet()
	must(t, r.client.Pause(t.Context(), client.Queue("other")))
	waiting.enqueue("other")
	running.start()
	repeating.start()
	l := r.load(100, work{For: 10 * time.Millisecond})
	mixed := r.start(spec{Role: "producer", Name: "producer", Rate: 100, Mix: true, Job: work{For: 10 * time.Millisecond}})
	r.awaitEvents(20*time.Second, 200, ended)
	sweeper.awaitTrust()

	safe := time.Now()
	before := r.memory()
	instant := ask[string](r, "SELECT clock_timestamp()::text")
	late.start()
	repeating.finish()
	must(t, r.client.Resume(t.Context(), client.Queue("other")))
	r.starts(waiting.ids, 1)
	pause(time.Until(safe.Add(pick(2*time.Second, 10*time.Second))))
	r.awaitArchived()
	must(t, r.postgres.Kill())
	killed := time.Now()
	r.restore(backup, archive, instant)
	after := r.memory()
	lead(t, link, r.postgres.URL())
	led := time.Now()

	r.awaitWork(led)
	back := r.firstAfter(started, led).Sub(led)
	must(t, r.client.Resume(t.Context(), client.Queue("other")))
	r.starts(append(repeating.ids, waiting.ids...), 2)
	pause(time.Until(led.Add(lease() + 2*sweepEvery))) // a sweeper that is wrong has time to show it
	for _, s := range []*gatedSet{running, waiting, late} {
		s.open()
	}
	l.stop()
	mixed.stop()
	r.awaitEmpty(40 * time.Second)
	forgotten, repeated := r.checkSetBack(before, after, safe, led)
	for _, id := range late.ids {
		if !forgotten[id] {
			t.Errorf("job %s was enqueued after the instant, and is not forgotten: the test proves nothing", id)
		}
	}
	r.check(audit{starts: 4, attempts: 2, forgotten: forgotten})
	runs, limit := r.keyRuns()
	for i := range runs {
		if u := &runs[i]; u.from.After(safe) && u.from.Before(led) {
			u.until(&led) // the database does not know of this claim
		}
	}
	r.checkHolders(runs, limit)
	tr.atRest()
	if n := r.count("SELECT count(*) FROM weir.sessions WHERE dead_at IS NOT NULL AND state <> 'draining'"); n != 0 {
		t.Errorf("%d living processes were called dead", n)
	}
	r.stillRun(workers...)
	t.Logf("%v were lost: %d jobs forgotten, %d repeated; restored in %v; jobs start again after %v; %d runs of jobs with keys",
		killed.Sub(safe), len(forgotten), repeated, led.Sub(killed), back, len(runs))
}
