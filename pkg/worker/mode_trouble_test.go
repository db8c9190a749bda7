//go:build linux

package worker_test

import (
	"flag"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// processesOf returns the ids of processes whose parent is pid.
func processesOf(pid int) (children []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		if f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			children = append(children, id)
		}
	}
	return children
}

func TestAKilledPoolOfChildrenUsesNoAttempt(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	u := r.startTrials()
	once := job.Options{MaxAttempts: 1}
	idle := result[int](r, r.add(trial{Do: "pid"}, once))
	if err := syscall.Kill(idle, syscall.SIGKILL); err != nil { // an idle child
		t.Fatal(err)
	}
	if next := result[int](r, r.add(trial{Do: "pid"}, once)); next == idle {
		t.Error("a dead child ran a job")
	}
	waits := r.add(trial{Do: "wait"}, once)
	r.reaches(waits, job.Running)
	supervisor := u.Supervisor()
	r.await("the child", func() bool { return len(processesOf(supervisor)) > 0 })
	children := processesOf(supervisor)
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil { // the whole pool, at work
		t.Fatal(err)
	}
	row := r.until(waits, "a release", func(row job.Row) bool { return row.State != job.Running || row.Fence > 1 })
	if row.State.Final() || row.Crashes != 0 || len(row.Attempts) != 0 {
		t.Errorf("the job is %+v", row)
	}
	for _, pid := range children {
		testenv.Eventually(t, soon, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, "child %d outlived its supervisor", pid)
	}
	if next := result[int](r, r.add(trial{Do: "pid"}, once)); next == idle {
		t.Error("a dead child ran a job")
	}
}

// TestWithoutDescriptors is the test below in a process of its own, which may open few files.
func TestWithoutDescriptors(t *testing.T) {
	if os.Getenv("WEIR_TEST_FEW_FILES") == "" {
		t.Skip("run by TestNoDescriptorLeftForAChildUsesNoAttempt")
	}
	r := setup(t, testenv.RedisNone)
	w := r.worker(r.withChildren())
	handleTrials(w, r.pool)
	events, stop := w.Events(100)
	defer stop()
	u := r.run(w)
	r.await("the worker", func() bool { return u.Stats().Claims > 0 })
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	for _, f := range held[:4] { // for the statements of the test
		_ = f.Close()
	}
	id := r.add(lone{trial{Do: "pid"}}, job.Options{MaxAttempts: 1})
	for ev := receive(t, events, "event"); ev.Type != worker.EventError || !strings.Contains(ev.Err.Error(), "too many open files"); ev = receive(t, events, "event") {
	}
	for _, f := range held {
		_ = f.Close()
	}
	if row := r.reaches(id, job.Completed); row.Attempt != 1 || len(row.Attempts) != 0 {
		t.Errorf("the job is %+v", row)
	}
}

func TestNoDescriptorLeftForAChildUsesNoAttempt(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `ulimit -Sn 90 && ulimit -Hn 90 && exec "$0" -test.run '^TestWithoutDescriptors$' -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), "WEIR_TEST_FEW_FILES=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWithoutDescriptors") {
		t.Errorf("%v\n%s", err, out)
	}
}

var long = flag.Bool("long", false, "measure what a machine must have time for")

// With a warm pool of two a machine with two cores runs 500 forked jobs a second and 50 spawned ones. Tests run beside others: what
// they are asked for without -long is a fiftieth of it.
func TestChildrenKeepUp(t *testing.T) {
	r := setup(t, testenv.RedisReal)
	r.startTrials(func(cfg *worker.Config) { cfg.Queues[0].Slots, cfg.Children.Count = 8, 2 })
	slack, spawns := 50.0, 20
	if *long {
		slack, spawns = 1, 100
	}
	r.reaches(r.add(trial{Do: "pid"}), job.Completed)
	for name, c := range map[string]struct {
		args job.Args
		n    int
		want float64
	}{"forked": {trial{Do: "pid"}, 1000, 500}, "spawned": {lone{trial{Do: "pid"}}, spawns, 50}} {
		before := r.count("SELECT count(*) FROM %s.outcomes")
		specs := make([]job.Spec, c.n)
		for i := range specs {
			specs[i].Args = c.args
		}
		began := time.Now()
		if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, time.Minute, func() bool { return r.count("SELECT count(*) FROM %s.outcomes")-before == c.n }, "not all have run")
		rate := float64(c.n) / time.Since(began).Seconds()
		t.Logf("%s: %.0f jobs/s", name, rate)
		if rate < c.want/slack {
			t.Errorf("%s: %.0f jobs/s, want %.0f", name, rate, c.want/slack)
		}
	}
}
