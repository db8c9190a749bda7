package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/sweeper"
	"github.com/weirq/weir/pkg/worker"
)

func TestJobsOfAClaimWhoseReplyIsLostAreGivenBack(t *testing.T) {
	t.Parallel()
	r, wire := wired(t)
	var ids []job.ID
	for range 5 {
		ids = append(ids, r.add(task{}))
	}
	attempts := make(chan int, 10)
	w := r.worker()
	worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error { attempts <- j.Attempt; return nil })
	wire.lose("claim_v1")
	u := r.run(w)
	for _, id := range ids {
		row := r.reaches(id, job.Completed)
		if row.Attempt != 1 {
			t.Errorf("attempt %d: the lost claim was counted", row.Attempt)
		}
	}
	if n := u.Stats().Orphans; wire.losses() != 1 || n != 5 || len(attempts) != 5 {
		t.Errorf("%d replies lost, %d starts, %d orphans", wire.losses(), len(attempts), n)
	}
}

func TestAResultWhoseReplyIsLostIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for statement, handler := range map[string]func(*worker.Job[task]) error{
		"finish_v1": func(*worker.Job[task]) error { return nil },
		"bury_v1":   func(*worker.Job[task]) error { return job.Discard(errors.New("no")) },
		"retry_v1": func(j *worker.Job[task]) error {
			if j.Attempt == 1 {
				return job.RetryIn(time.Millisecond, errors.New("no"))
			}
			return nil
		},
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			r, wire := wired(t)
			var calls atomic.Int32
			u := r.start(func(_ context.Context, j *worker.Job[task]) error { calls.Add(1); return handler(j) })
			r.settled(u)
			wire.lose(statement)
			id := r.add(task{})
			row := r.until(id, "its end", func(row job.Row) bool { return row.State.Final() })
			want := map[string]int32{"finish_v1": 1, "bury_v1": 1, "retry_v1": 2}[statement]
			if n := calls.Load(); n != want || row.Attempt != int(want) || wire.losses() != 1 {
				t.Errorf("%d calls, want %d; %d replies lost; row %+v", n, want, wire.losses(), row)
			}
			r.await("nothing is held, and it is counted for what it is", func() bool {
				s := u.Stats()
				return s.Held == 0 && (statement != "finish_v1" || s.Completed == 1 && s.Refused == 0)
			})
		})
	}
}

func TestBackendsThatAreTerminatedCostNothingButTime(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	name := "weir_" + r.namespace
	pool := testenv.Pool(t, testenv.Postgres(t)+poolSuffix(testenv.Postgres(t))+"application_name="+name)
	victim := on(t, "none", pool, r.namespace)
	const jobs = 300
	var specs []job.Spec
	for n := range jobs {
		specs = append(specs, job.Spec{Args: task{N: n}})
	}
	if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ended := map[int]int{}
	victim.start(func(_ context.Context, j *worker.Job[task]) error {
		mu.Lock()
		defer mu.Unlock()
		ended[j.Args.N]++
		return nil
	}, func(c *worker.Config) { c.Queues[0].Slots = 3 })
	for range 10 {
		r.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND '%s' <> ''", name)
		<-time.After(30 * time.Millisecond)
	}
	r.await("all ended", func() bool { return r.count("SELECT count(*) FROM %s.live") == 0 })
	if n := r.count("SELECT count(*) FROM %s.outcomes"); n != jobs {
		t.Errorf("%d outcomes", n)
	}
	if n := r.count("SELECT count(*) FROM %s.attempts"); n != 0 {
		t.Errorf("%d attempts failed", n)
	}
}

func TestALostLeaseEndsTheHandlersAndTheWorkerGoesOn(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		causes, firstStart := make(chan error, 2), make(chan bool, 2)
		var h hooks
		w := r.worker(h.install)
		worker.Handle(w, func(ctx context.Context, j *worker.Job[task]) error {
			if firstStart <- true; j.Fence > 1 {
				return nil
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil // too late: it must not count
		})
		stream, stop := w.Events(100)
		defer stop()
		u := r.run(w)
		id := r.add(task{})
		receive(t, firstStart, "start")
		before := u.Stats().Session
		r.exec("UPDATE %s.sessions SET dead_at = clock_timestamp() WHERE role = 'worker'")
		if cause := receive(t, causes, "end of the context"); !errors.Is(cause, job.ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
		r.await("a new session", func() bool { s := u.Stats().Session; return s != "" && s != before })
		if n := r.count("SELECT count(*) FROM %s.outcomes"); n != 0 {
			t.Error("the result of the lost claim was written")
		}
		s, err := sweeper.New(r.Client, sweeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.RunDuty(t.Context(), "recover"); err != nil {
			t.Fatal(err)
		}
		if row := r.reaches(id, job.Completed); row.Attempt != 1 {
			t.Errorf("attempt %d", row.Attempt)
		}
		r.await("the event", func() bool { return (<-stream).Type == worker.EventLeaseLost })
		h.wasTold(t, 1, 2)
	})
}

func TestARowThatIsDeletedWhileItsJobRunsIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	returns := map[string]error{"completes": nil, "fails": errors.New("no"), "cancels": job.Cancel(nil), "snoozes": job.Snooze(0)}
	u := r.start(func(_ context.Context, j *worker.Job[task]) error {
		r.exec("DELETE FROM %s.live WHERE id = $1", j.ID)
		return returns[j.Args.Note]
	})
	for note := range returns {
		r.add(task{Note: note})
	}
	r.await("all were dropped", func() bool { return u.Stats().Refused == 4 && u.Stats().Held == 0 })
	for _, table := range []string{"live", "outcomes", "dead", "attempts"} {
		if n := r.count("SELECT count(*) FROM %s." + table); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
}

func TestAnOutageOfTheDatabaseCostsNoHandlerItsWork(t *testing.T) {
	t.Parallel()
	pg := testenv.PrivatePostgres(t)
	pool, namespace := testenv.SchemaOn(t, pg.URL())
	r := on(t, testenv.RedisNone, pool, namespace)
	var starts, stops atomic.Int32
	w := r.worker(shortLease, func(c *worker.Config) { c.Queues[0].Slots = 20 })
	release, doubts := make(chan struct{}), make(chan error, 1)
	worker.Handle(w, func(ctx context.Context, _ *worker.Job[task]) error {
		starts.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
			stops.Add(1)
		}
		return nil
	})
	worker.Handle(w, func(ctx context.Context, j *worker.Job[other]) error {
		if j.Fence > 1 {
			return nil
		}
		<-ctx.Done()
		doubts <- context.Cause(ctx)
		return nil
	}, worker.HandlerOptions{StopOnDoubt: true})
	var ids []job.ID
	for range 10 {
		ids = append(ids, r.add(task{}))
	}
	strict := r.add(other{})
	r.run(w)
	r.await("all started", func() bool { return starts.Load() == 10 })
	begun := time.Now()
	if err := pg.Pause(); err != nil {
		t.Fatal(err)
	}
	if cause := receive(t, doubts, "end of the strict handler"); !errors.Is(cause, job.ErrLeaseLost) {
		t.Errorf("cause %v", cause)
	}
	if took := time.Since(begun); took > 3500*time.Millisecond {
		t.Errorf("the strict handler was told after %v, with a lease of 3s", took)
	}
	<-time.After(7*time.Second - time.Since(begun))
	if err := pg.Resume(); err != nil {
		t.Fatal(err)
	}
	r.reaches(strict, job.Completed)
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	close(release) // their results have nowhere to go yet
	<-time.After(500 * time.Millisecond)
	if err := pg.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if row := r.reaches(id, job.Completed); row.Attempt != 1 {
			t.Errorf("attempt %d", row.Attempt)
		}
	}
	r.reaches(r.add(task{}), job.Completed)
	if starts.Load() != 11 || stops.Load() != 0 {
		t.Errorf("%d starts, %d were stopped", starts.Load(), stops.Load())
	}
}

func TestAWorkerMayStartBeforeItsDatabase(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	r.exec("ALTER TABLE %s.sessions RENAME TO hidden")
	u := r.start(func(context.Context, *worker.Job[task]) error { return nil })
	id := r.add(task{})
	<-time.After(200 * time.Millisecond)
	if s := u.Stats(); s.Session != "" {
		t.Errorf("stats %+v", s)
	}
	r.exec("ALTER TABLE %s.hidden RENAME TO sessions")
	r.reaches(id, job.Completed)
}
