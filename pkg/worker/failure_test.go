package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// taskFailed is the failure job of task.
type taskFailed struct{ job.Failure }

func (taskFailed) Kind() string { return "task.failed" }

func TestAFailureJobRunsWithTheJobAndItsError(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		got := make(chan job.Failure, 2)
		w := r.worker()
		worker.Handle(w, func(context.Context, *worker.Job[task]) error { return errors.New("no route") })
		worker.Handle(w, func(_ context.Context, j *worker.Job[taskFailed]) error {
			got <- j.Args.Failure
			return job.Discard(errors.New("its own end is not followed by another"))
		})
		r.run(w)
		id := r.add(task{N: 7}, job.Options{MaxAttempts: job.NoRetry, OnDiscard: "task.failed"})
		select {
		case f := <-got:
			if f.ID != id || f.Kind != "task" || f.Error != "no route" || string(f.Payload) != `{"n":7}` || f.Attempt != 1 {
				t.Errorf("the failure job has %+v", f)
			}
		case <-time.After(soon):
			t.Fatal("no failure job has run")
		}
		testenv.Eventually(t, soon, func() bool { return r.count("SELECT count(*) FROM %s.dead WHERE state = 1") == 2 }, "the failure job has not ended")
		if n := r.count("SELECT count(*) FROM %s.jobs WHERE true"); n != 2 {
			t.Errorf("%d jobs, want two: depth one", n)
		}
	})
}

func TestAFailureJobThatCannotBeAddedIsSaidByEventAndHookAndTheJobEnds(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	var (
		mu   sync.Mutex
		told []error
	)
	w := r.worker(func(cfg *worker.Config) {
		cfg.OnError = func(_ context.Context, _ job.Row, err error, _ worker.Next) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err)
		}
	})
	worker.Handle(w, func(context.Context, *worker.Job[task]) error { return errors.New("no route") })
	events, stop := w.Events(100)
	defer stop()
	e := r.add(task{}, job.Options{MaxAttempts: job.NoRetry, OnDiscard: "task.failed", Delay: 200 * time.Millisecond})
	r.exec(`CREATE FUNCTION %[1]s.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not here'; END $$`)
	r.exec(`CREATE TRIGGER refuse BEFORE INSERT ON %[1]s.jobs FOR EACH ROW EXECUTE FUNCTION %[1]s.refuse()`)
	r.run(w)
	limit := time.After(soon)
	for {
		select {
		case ev := <-events:
			if ev.Type != worker.EventFailureNotAdded {
				continue
			}
			var failure *worker.FailureJobError
			if !errors.As(ev.Err, &failure) || failure.Kind != "task.failed" || ev.Row.ID != e {
				t.Errorf("the event is %+v", ev)
			}
		case <-limit:
			t.Fatal("no event")
		}
		break
	}
	if n := r.count("SELECT count(*) FROM %s.dead WHERE state = 1"); n != 1 {
		t.Errorf("%d discarded jobs, want the one that ended without its failure job", n)
	}
	testenv.Eventually(t, soon, func() bool {
		mu.Lock()
		defer mu.Unlock()
		var failure *worker.FailureJobError
		return len(told) == 2 && errors.As(told[1], &failure)
	}, "OnError was not told twice")
}

func TestAJobWhoseUniqueKeyWentToANewerOneIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	o := job.Options{Unique: job.Unique{Key: "index:42", While: job.Waiting, OnConflict: job.Replace}}
	runs, goOn := make(chan int, 10), make(chan struct{})
	r.start(func(_ context.Context, j *worker.Job[task]) error {
		runs <- j.Args.N
		if j.Args.N == 1 {
			<-goOn
			return errors.New("stale")
		}
		return nil
	}, func(cfg *worker.Config) { cfg.Queues[0].Slots = 1 })
	old := r.add(task{N: 1}, o)
	if n := <-runs; n != 1 {
		t.Fatalf("job %d has started", n)
	}
	r.add(task{N: 2}, o)
	newest := r.add(task{N: 3}, o) // in the place of 2
	close(goOn)
	if n := <-runs; n != 3 {
		t.Errorf("job %d runs next, want the newest", n)
	}
	testenv.Eventually(t, soon, func() bool {
		return r.count("SELECT count(*) FROM %s.live WHERE true") == 0 && r.count("SELECT count(*) FROM %s.uniques WHERE true") == 0
	}, "something is left")
	row, err := r.Job(t.Context(), old)
	if err != nil || row.State != job.Cancelled || len(row.Error) < 10 || row.Error[:10] != "superseded" {
		t.Errorf("the old one is %s, %q, %v", row.State, row.Error, err)
	}
	if row, err = r.Job(t.Context(), newest); err != nil || row.State != job.Completed {
		t.Errorf("the newest is %s, %v", row.State, err)
	}
}
