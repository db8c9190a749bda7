//go:build unix

package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// withChildren makes a worker's children work on r.
func (r *rig) withChildren(change ...func(*worker.Config)) func(*worker.Config) {
	return func(cfg *worker.Config) {
		cfg.Children.Settings = []string{"URL=" + r.pool.Config().ConnString(), "NAMESPACE=" + r.namespace}
		cfg.Children.Count = 2
		for _, f := range change {
			f(cfg)
		}
	}
}

// startTrials runs a worker with the trial handlers.
func (r *rig) startTrials(change ...func(*worker.Config)) *running {
	r.t.Helper()
	w := r.worker(r.withChildren(change...))
	handleTrials(w, r.pool)
	return r.run(w)
}

// result waits until a job has completed and decodes its result.
func result[T any](r *rig, id job.ID) (v T) {
	r.t.Helper()
	row := r.reaches(id, job.Completed)
	if err := json.Unmarshal(row.Result, &v); err != nil {
		r.t.Fatalf("result %s: %v", row.Result, err)
	}
	return v
}

// failed waits until a job's first attempt has failed, and returns its row with the attempts.
func (r *rig) failed(id job.ID) job.Row {
	r.t.Helper()
	return r.until(id, "a failed attempt", func(row job.Row) bool { return len(row.Attempts) > 0 })
}

func TestHandlersAreTheSameInEveryMode(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	r.startTrials()
	for _, kind := range []func(trial) job.Args{func(a trial) job.Args { return a }, func(a trial) job.Args { return lone{a} }} {
		ids := map[string]job.ID{}
		for _, do := range []string{"echo", "place", "finish", "enqueue", "deadline", "fail", "cancel", "discard", "snooze", "retry", "panic", "goexit"} {
			ids[do] = r.add(kind(trial{Do: do, Text: "<b> & ünicode"}))
		}
		for do, want := range map[string]string{
			"echo": `"\u003cb\u003e \u0026 ünicode"`, "place": `"child"`, "finish": `"in its own transaction"`, "deadline": "[true,true]",
		} {
			if got := r.reaches(ids[do], job.Completed).Result; string(got) != want {
				t.Errorf("%s: got %s, want %s", do, got, want)
			}
		}
		followed, err := job.ParseID(result[string](r, ids["enqueue"]))
		if err != nil {
			t.Fatal(err)
		}
		if row := r.reaches(followed, job.Completed); row.ParentID != ids["enqueue"] {
			t.Errorf("a job that a child enqueued has the parent %v, want %v", row.ParentID, ids["enqueue"])
		}
		for do, want := range map[string]job.State{"cancel": job.Cancelled, "discard": job.Discarded} {
			if row := r.reaches(ids[do], want); row.Error != "<b> & ünicode" {
				t.Errorf("%s: got %q", do, row.Error)
			}
		}
		if row := r.until(ids["snooze"], "scheduled", func(row job.Row) bool { return row.State == job.Scheduled }); row.Attempt != 0 {
			t.Errorf("a snoozed job has used %d attempts", row.Attempt)
		}
		if row := r.reaches(ids["retry"], job.Retrying); time.Until(row.ReadyAt) < time.Hour || row.Attempts[0].Error != "<b> & ünicode" {
			t.Errorf("retry: due in %v, %+v", time.Until(row.ReadyAt), row.Attempts)
		}
		if row := r.failed(ids["fail"]); row.Attempts[0].Error != "<b> & ünicode" || row.Attempts[0].Outcome != "failed" {
			t.Errorf("fail: %+v", row.Attempts)
		}
		if row := r.failed(ids["panic"]); row.Attempts[0].Error != "panic: <b> & ünicode" || !strings.Contains(row.Attempts[0].Stack, "mode_child_test.go") {
			t.Errorf("panic: %+v", row.Attempts)
		}
		if row := r.failed(ids["goexit"]); !strings.Contains(row.Attempts[0].Error, "runtime.Goexit") {
			t.Errorf("goexit: %+v", row.Attempts)
		}
	}
}

func TestAForkedChildIsWarmAndASpawnedOneIsFresh(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	r.startTrials(func(cfg *worker.Config) { cfg.Children.Count, cfg.Children.MaxJobs = 1, 3 })
	forked, spawned := map[int]int{}, map[int]int{}
	for range 6 {
		forked[result[int](r, r.add(trial{Do: "pid"}))]++
		spawned[result[int](r, r.add(lone{trial{Do: "pid"}}))]++
	}
	if len(forked) != 2 || len(spawned) != 6 || forked[os.Getpid()]+spawned[os.Getpid()] > 0 {
		t.Errorf("forked jobs ran in %v, want two children with three each; spawned in %v, want six", forked, spawned)
	}
	if pid := result[int](r, r.add(task{})); pid != os.Getpid() {
		t.Errorf("an inline job ran in %d", pid)
	}
	if pid := result[int](r, r.add(task{}, job.Options{Mode: job.Spawned})); pid == os.Getpid() {
		t.Errorf("a producer asked for a process of its own, and the job ran in the worker's")
	}
	if pid := result[int](r, r.add(lone{trial{Do: "pid"}}, job.Options{Mode: job.Forked})); forked[pid] > 0 {
		t.Errorf("a producer has lowered the isolation")
	}
}

func TestAJobWaitsForAWorkerThatAcceptsItsMode(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	inline := r.worker(func(cfg *worker.Config) { cfg.Modes = []job.Mode{job.Inline} })
	worker.HandleResult(inline, func(context.Context, *worker.Job[task]) (any, error) { return "inline", nil })
	u := r.run(inline)
	alone := r.add(task{}, job.Options{Mode: job.Forked})
	for range 3 { // behind it in the line, and not held up by it
		r.reaches(r.add(task{}), job.Completed)
	}
	if row, err := r.Job(t.Context(), alone); err != nil || row.State != job.Available || row.Attempt != 0 {
		t.Fatalf("the job is %+v, %v", row, err)
	}
	r.startTrials(func(cfg *worker.Config) { cfg.Modes = []job.Mode{job.Spawned} })
	if pid := result[int](r, alone); pid == os.Getpid() {
		t.Error("it ran inline")
	}
	if err := u.close(); err != nil {
		t.Fatal(err)
	}
	if pid := result[int](r, r.add(task{})); pid == os.Getpid() {
		t.Error("a worker that accepts spawned jobs alone ran one inline")
	}
}

func TestAQueueMayAskForMoreIsolation(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	r.startTrials(func(cfg *worker.Config) {
		cfg.Queues = append(cfg.Queues, worker.Queue{Name: "apart", Slots: 2, Modes: []job.Mode{job.Forked, job.Spawned}})
	})
	if pid := result[int](r, r.add(task{}, job.Options{Queue: "apart"})); pid == os.Getpid() {
		t.Error("a queue of forked and spawned jobs ran one inline")
	}
	if pid := result[int](r, r.add(task{})); pid != os.Getpid() {
		t.Error("another queue did not run its job inline")
	}
}

func TestAModeThatCannotBeServedIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	w := r.worker(r.withChildren(func(cfg *worker.Config) { cfg.Modes = []job.Mode{job.Inline, job.Forked} }))
	handleTrials(w, r.pool)
	err := w.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "kind lone runs spawned, which queue default does not accept: it accepts inline, forked") {
		t.Errorf("got %v", err)
	}
	_, err = worker.New(r.Client, worker.Config{Modes: []job.Mode{7}})
	var field *job.FieldError
	if !errors.As(err, &field) || field.Field != "Modes" {
		t.Errorf("got %v", err)
	}
	if _, err := r.Enqueue(t.Context(), task{}, job.Options{Mode: 7}); !errors.As(err, &field) || field.Field != "Mode" {
		t.Errorf("got %v", err)
	}
}

// gone waits until no process of those whose ids are in files lives.
func gone(t *testing.T, files ...string) {
	t.Helper()
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatalf("%s holds %q", name, text)
		}
		testenv.Eventually(t, soon, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, "process %d of %s lives", pid, name)
	}
}

func TestAChildThatIgnoresEverythingIsGoneWithinASecondOfItsTimeout(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	r.startTrials()
	for name, kind := range map[string]func(trial) job.Args{
		"forked": func(a trial) job.Args { return a }, "spawned": func(a trial) job.Args { return lone{a} },
	} {
		dir := t.TempDir()
		files := []string{filepath.Join(dir, "0"), filepath.Join(dir, "1"), filepath.Join(dir, "2")}
		const timeout = 5 * time.Second // for the start of its own children on a busy machine
		id := r.add(kind(trial{Do: "stubborn", Text: dir}), job.Options{Timeout: timeout})
		for _, file := range files {
			r.await("the children of "+name, func() bool { text, _ := os.ReadFile(file); return len(text) > 1 })
		}
		info, err := os.Stat(files[2]) // written a moment after the handler began
		if err != nil {
			t.Fatal(err)
		}
		gone(t, files...)
		within := time.Second // of which half is the child's own, to end by itself
		if testenv.Race {
			within = 2 * time.Second
		}
		if over := time.Since(info.ModTime()) - timeout; over > within {
			t.Errorf("%s: all is gone %v after the timeout", name, over)
		}
		row := r.failed(id)
		if a := row.Attempts[0]; a.Outcome != "timed out" || !strings.Contains(a.Error, "killed") {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestHarmCostsOnlyItsOwnAttempt(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	var shown buffer
	u := r.startTrials(func(cfg *worker.Config) {
		cfg.Children.MaxRSS, cfg.Children.Output = 128<<20, &shown
		cfg.Queues[0].Slots = 20
	})
	long := r.add(task{}) // inline, beside them
	once := job.Options{MaxAttempts: 1, Timeout: time.Minute}
	loop := job.Options{MaxAttempts: 1, Timeout: time.Second}
	wants := map[job.ID]string{}
	for _, kind := range []func(trial) job.Args{func(a trial) job.Args { return a }, func(a trial) job.Args { return lone{a} }} {
		wants[r.add(kind(trial{Do: "exit", N: 3}), once)] = "child exited with status 3: about to leave"
		wants[r.add(kind(trial{Do: "exit", N: 0}), once)] = "child exited with status 0: about to leave"
		wants[r.add(kind(trial{Do: "segfault"}), once)] = "SIGSEGV"
		wants[r.add(kind(trial{Do: "crash"}), once)] = "panic: nobody catches this"
		wants[r.add(kind(trial{Do: "memory", N: 2048}), once)] = "child was killed: it held "
		wants[r.add(kind(trial{Do: "loop"}), loop)] = "job: timeout: child was ended by a signal: killed"
	}
	closed, printed := r.add(trial{Do: "close"}, once), r.add(lone{trial{Do: "stderr", N: 100}}, once)
	r.reaches(long, job.Completed)
	for id, want := range wants {
		var row job.Row
		testenv.Eventually(t, time.Minute, func() bool { // two dozen children at once, some of which want all there is
			row, _ = r.Job(t.Context(), id)
			return row.State == job.Discarded
		}, "the job that wants %q is %+v", want, &row)
		if !strings.Contains(row.Error, want) {
			t.Errorf("got %q, want %q", row.Error, want)
		}
		if row.Crashes != 0 || row.Attempt != 1 {
			t.Errorf("%s: %d crashes, %d attempts", want, row.Crashes, row.Attempt)
		}
		if strings.HasPrefix(want, "panic") && !strings.Contains(row.Attempts[0].Stack, "goroutine") {
			t.Errorf("the stack is %q", row.Attempts[0].Stack)
		}
	}
	r.reaches(closed, job.Completed)
	if got := result[string](r, printed); got != "printed" {
		t.Errorf("got %q", got)
	}
	if n := len(shown.String()); n > 2<<20 {
		t.Errorf("%d bytes of output were passed on", n)
	}
	r.await("it is told that output is not shown", func() bool { return strings.Contains(shown.String(), "more bytes of output are not shown") })
	if err := u.close(); err != nil {
		t.Error(err)
	}
}

func TestWhatAJobLeavesBehindEndsWithIt(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	r.startTrials()
	for _, kind := range []func(trial) job.Args{func(a trial) job.Args { return a }, func(a trial) job.Args { return lone{a} }} {
		file := filepath.Join(t.TempDir(), "pid")
		id := r.add(kind(trial{Do: "leave", Text: file}))
		r.reaches(id, job.Completed)
		gone(t, file)
	}
}

func TestTheContextOfAChildEnds(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	u := r.startTrials(func(cfg *worker.Config) { cfg.Grace = time.Nanosecond })
	cancelled := r.add(trial{Do: "wait"})
	r.reaches(cancelled, job.Running)
	if err := r.Cancel(t.Context(), cancelled); err != nil {
		t.Fatal(err)
	}
	if row := r.reaches(cancelled, job.Cancelled); row.Error != "job: cancelled" {
		t.Errorf("got %q", row.Error)
	}
	timed := r.add(lone{trial{Do: "wait"}}, job.Options{Timeout: 300 * time.Millisecond, MaxAttempts: 1})
	if row := r.reaches(timed, job.Discarded); row.Attempts[0].Outcome != "timed out" || row.Error != "job: timeout" {
		t.Errorf("got %+v", row.Attempts)
	}
	released := r.add(trial{Do: "wait"})
	r.reaches(released, job.Running)
	if err := u.close(); err != nil {
		t.Fatal(err)
	}
	if row, err := r.Job(t.Context(), released); err != nil || row.State != job.Available || row.Attempt != 0 {
		t.Errorf("after the shutdown the job is %+v, %v", row, err)
	}
}

func TestAChildSeesNothingOfTheWorkersEnvironment(t *testing.T) {
	t.Setenv("WEIR_TEST_CANARY", "S3CR3T") // so not parallel
	t.Setenv("MODES_TEST_ALLOWED", "yes")
	r := setup(t, testenv.RedisNone)
	r.startTrials(func(cfg *worker.Config) { cfg.Children.Env = []string{"MODES_TEST_*"} })
	env := strings.Join(result[[]string](r, r.add(lone{trial{Do: "env"}})), "\n")
	if strings.Contains(env, "S3CR3T") || strings.Contains(env, "URL=") || strings.Contains(env, "WEIR_CHILD=") {
		t.Errorf("the child sees %s", env)
	}
	for _, want := range []string{"PATH=", "MODES_TEST_ALLOWED=yes"} {
		if !strings.Contains(env, want) {
			t.Errorf("%s is not among %s", want, env)
		}
	}
}

func Example_modes() {
	for _, mode := range []testenv.RedisMode{testenv.RedisMini, testenv.RedisNone} {
		t := &exampleT{}
		r := setup(t, mode)
		cfg := worker.Config{}
		r.withChildren()(&cfg)
		w, err := worker.New(r.Client, cfg)
		if err != nil {
			panic(err)
		}
		handleTrials(w, r.pool) // trial is forked: HandlerOptions{Mode: job.Forked}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		e, err := r.Enqueue(ctx, trial{Do: "exit", N: 3}, job.Options{MaxAttempts: 1}) // its handler calls os.Exit(3)
		if err != nil {
			panic(err)
		}
		_, err = client.Await[string](ctx, r.Client, e.ID)
		fmt.Printf("%s: %s\n", mode, err.(*job.FailedError).Message)
		stop()
		fmt.Println(<-ended)
		t.end()
	}
	// Output:
	// miniredis: child exited with status 3: about to leave
	// <nil>
	// none: child exited with status 3: about to leave
	// <nil>
}
