//go:build unix

package chaos_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/embedded"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// replica is a hot standby of a rig's server.
type replica struct {
	rig    *rig
	server *embedded.Postgres
	stream *testenv.Proxy // all that it learns comes this way
}

// replica copies the server and follows it from then on.
func (r *rig) replica() *replica {
	r.t.Helper()
	source, err := url.Parse(r.postgres.URL())
	must(r.t, err)
	stream := testenv.NewProxy(r.t, source.Host)
	data := filepath.Join(r.copyServer(stream.Through(r.t, source.String()), "-R", "-X", "stream"), "data")
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	server, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Dir: data})
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, server.Close()) })
	return &replica{rig: r, server: server, stream: stream}
}

// copyServer makes a copy of the rig's server in a directory that it owns: its files are in data there.
func (r *rig) copyServer(from string, more ...string) (dir string) {
	r.t.Helper()
	tool := filepath.Join(r.postgres.BinDir(), "pg_basebackup")
	if _, err := os.Stat(tool); err != nil {
		r.t.Skip("NOT RUN: a server is copied by pg_basebackup: ", err)
	}
	dir, err := os.MkdirTemp("", "weir-copy-*")
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, os.RemoveAll(dir)) })
	args := []string{"-D", filepath.Join(dir, "data"), "-d", from, "-c", "fast", "--no-sync"}
	cmd := exec.Command(tool, append(args, more...)...)
	cmd.Dir = dir
	if os.Geteuid() == 0 { // as the server's own user, to whom all files must belong
		owner := ownerOf(r.t, ask[string](r, "SHOW data_directory"))
		must(r.t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("copy the server: %v: %s", err, out)
	}
	return dir
}

// ownerOf is the user to whom a directory belongs.
func ownerOf(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	info, err := os.Stat(dir)
	must(t, err)
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("the owner of %s is not known", dir)
	}
	return &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}
}

// awaitCaughtUp waits until the replica has all that is committed on the primary now.
func (p *replica) awaitCaughtUp() {
	p.rig.t.Helper()
	pool := testenv.Pool(p.rig.t, p.server.URL())
	at := ask[string](p.rig, "SELECT pg_current_wal_insert_lsn()::text")
	testenv.Eventually(p.rig.t, 30*time.Second, func() bool {
		isThere := false
		err := pool.QueryRow(p.rig.t.Context(), "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", at).Scan(&isThere)
		return err == nil && isThere
	}, "the replica does not come to %s", at)
}

// promote makes the replica the rig's server, for the test. Processes come to it when their link leads there.
func (p *replica) promote() {
	r := p.rig
	r.t.Helper()
	r.postgres, r.pool = p.server, testenv.Pool(r.t, p.server.URL())
	if !ask[bool](r, "SELECT pg_promote(true, 60)") {
		r.t.Fatal("the replica was not promoted")
	}
	r.client = r.clientOn(r.pool)
}

// memory is what a server knows of jobs.
type memory struct{ known, done map[job.ID]bool }

func (r *rig) memory() memory {
	r.t.Helper()
	return memory{known: r.ids("SELECT id FROM weir.jobs"), done: r.ids("SELECT id FROM weir.outcomes")}
}

// P1, as durable as the commit is: a replica is promoted that lacks the last second. What was committed before it lost touch
// stands, also that it was done. Of what came later exactly what it lacks is forgotten (jobs that were enqueued) or runs
// once more (jobs that were done, or that run and are waiting by the replica's account). Handlers that ran all the while
// finish, and everybody goes on by himself. Short: one second is lost instead of five.
func TestAReplicaWithoutTheLastSecondForgetsOrRepeatsExactlyThat(t *testing.T) {
	t.Parallel()
	r := newRig(t, privatePostgres())
	link := r.proxy()
	r.url = link.Through(t, r.url) // of all processes
	sweeper := r.start(spec{Role: "sweeper", Name: "sweeper"})
	rep := r.replica()
	workers := []*process{r.worker("one", twoQueues), r.worker("two", twoQueues)}
	running, repeating, waiting, late := r.gatedSet(), r.gatedSet(), r.gatedSet(), r.gatedSet()
	must(t, r.client.Pause(t.Context(), client.Queue("other")))
	waiting.enqueue("other")
	running.start()
	repeating.start()
	l := r.load(200, work{For: 10 * time.Millisecond})
	r.awaitEvents(20*time.Second, 200, ended)
	sweeper.awaitTrust()

	safe := time.Now()
	before := r.memory()
	rep.awaitCaughtUp()
	rep.stream.Shut()
	cut := time.Now()
	late.start()
	repeating.finish()
	must(t, r.client.Resume(t.Context(), client.Queue("other")))
	r.starts(waiting.ids, 1)
	workers = append(workers, r.worker("three", twoQueues)) // the replica does not know its session
	pause(pick(time.Second, 5*time.Second))
	must(t, r.postgres.Kill())
	rep.promote()
	after := r.memory()
	lead(t, link, rep.server.URL())
	led := time.Now()

	r.awaitWork(led)
	back := r.firstAfter(started, led).Sub(led)
	must(t, r.client.Resume(t.Context(), client.Queue("other")))
	r.starts(append(repeating.ids, waiting.ids...), 2)
	again := time.Since(led)
	for _, w := range workers {
		w.awaitSession()
	}
	pause(time.Until(led.Add(lease() + 2*sweepEvery))) // a sweeper that is wrong has time to show it
	for _, s := range []*gatedSet{running, waiting, late} {
		s.open()
	}
	l.stop()
	r.awaitEmpty(40 * time.Second)
	forgotten, repeated := r.checkSetBack(before, after, safe, led)
	for _, id := range late.ids {
		if !forgotten[id] {
			t.Errorf("job %s was enqueued after the replica had lost touch, and is not forgotten: the test proves nothing", id)
		}
	}
	r.check(audit{starts: 2, forgotten: forgotten})
	r.allAlive()
	r.stillRun(workers...)
	t.Logf("%v were lost: %d jobs forgotten, %d repeated; jobs start again after %v, all that are repeated have after %v",
		led.Sub(cut), len(forgotten), repeated, back, again)
}

func twoQueues(s *spec) { s.Queues = map[string]int{"default": 30, "other": 10} }

// awaitWork waits until jobs are acknowledged and start again.
func (r *rig) awaitWork(since time.Time) {
	r.t.Helper()
	testenv.Eventually(r.t, 30*time.Second+crowd(), func() bool {
		all := readLedgers(r.t, r.dir)
		return all.of(started).last().After(since) && all.of(acked).last().After(since)
	}, "neither enqueues nor jobs go on")
}

// stillRun checks that no process has ended.
func (r *rig) stillRun(processes ...*process) {
	r.t.Helper()
	for _, p := range processes {
		if !p.isRunning() {
			r.t.Errorf("%s has ended", p.name)
		}
	}
}

// gatedSet is ten jobs that run until their gate opens.
type gatedSet struct {
	rig  *rig
	gate string
	open func()
	ids  []job.ID
}

func (r *rig) gatedSet() *gatedSet {
	g := &gatedSet{rig: r}
	g.gate, g.open = r.gate()
	return g
}

func (g *gatedSet) enqueue(queue string) {
	g.rig.t.Helper()
	g.ids = g.rig.enqueueMany(10, work{Gate: g.gate}, job.Options{Queue: queue, MaxAttempts: 1})
}

// start enqueues them and returns when all of them run.
func (g *gatedSet) start() {
	g.rig.t.Helper()
	g.enqueue("default")
	g.rig.starts(g.ids, 1)
}

// finish opens the gate and returns when they are done by the database's account.
func (g *gatedSet) finish() {
	g.rig.t.Helper()
	g.open()
	testenv.Eventually(g.rig.t, 20*time.Second, func() bool {
		done := g.rig.memory().done
		for _, id := range g.ids {
			if !done[id] {
				return false
			}
		}
		return true
	}, "they are not done")
}

// lead sends what connects from now on to the server of a URL.
func lead(t *testing.T, link *testenv.Proxy, server string) {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	link.Lead(u.Host)
}

// checkSetBack compares what the primary had committed before the replica lost touch (at safe, or later) with what the
// replica knew when it was promoted, and that with what has run since. It returns the jobs that were acknowledged and are
// forgotten, and how many ran again.
func (r *rig) checkSetBack(before, after memory, safe, led time.Time) (forgotten map[job.ID]bool, repeated int) {
	r.t.Helper()
	for id := range before.known {
		if !after.known[id] {
			r.t.Errorf("P1: job %s was committed before the replica lost touch, and it does not know it", id)
		}
	}
	for id := range before.done {
		if !after.done[id] {
			r.t.Errorf("P1: job %s was done before the replica lost touch, and it does not know that", id)
		}
	}
	all := readLedgers(r.t, r.dir)
	now := r.ids("SELECT id FROM weir.jobs")
	forgotten = map[job.ID]bool{}
	for _, e := range all.of(acked) {
		if now[e.ID] {
			continue
		}
		forgotten[e.ID] = true
		if after.known[e.ID] || e.At.Before(safe) || e.At.After(led) {
			r.t.Errorf("P1: job %s, acknowledged %v after what the replica is sure to have, is gone", e.ID, e.At.Sub(safe))
		}
	}
	returned := all.of(ended).byID()
	for id, starts := range all.of(started).byID() {
		if len(starts) == 1 {
			continue
		}
		isAgain := starts.last().After(led) // else a retry that was meant to be
		if isAgain {
			repeated++
		}
		if isAgain && after.done[id] {
			r.t.Errorf("P1: job %s was done by the replica's account and ran again: %v", id, starts)
		}
		// Its claim is on the replica: it may run again if it had ended, not if it was running.
		if starts[0].At.Before(safe) && returned[id].count(starts[0].At, starts[1].At) == 0 {
			r.t.Errorf("P8: job %s ran, and was started again: %v", id, starts)
		}
	}
	return forgotten, repeated
}
