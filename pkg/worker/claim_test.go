package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func TestJobsStartByPriorityAndThenByReadiness(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		var specs []job.Spec
		for n := range 60 {
			specs = append(specs, job.Spec{Args: task{N: n}, Options: job.Options{Priority: 1 + (n*7)%9}})
		}
		if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
			t.Fatal(err)
		}
		var order []int
		w := r.worker(func(c *worker.Config) { c.Queues[0].Slots = 1 })
		ended := make(chan bool)
		worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error {
			order = append(order, j.Args.N)
			if len(order) == len(specs) {
				close(ended)
			}
			return nil
		})
		r.run(w)
		receive(t, ended, "end")
		sorted := slices.IsSortedFunc(order, func(a, b int) int {
			pa, pb := specs[a].Options.Priority, specs[b].Options.Priority
			return (pa-pb)*1000 + a - b
		})
		if !sorted {
			t.Errorf("order %v", order)
		}
	})
}

func TestKindsThatThisProcessDoesNotKnowAreLeftAlone(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		unknown := r.add(other{})
		u := r.start(func(context.Context, *worker.Job[task]) error { return nil })
		r.reaches(r.add(task{}), job.Completed)
		row, err := r.Job(t.Context(), unknown)
		if err != nil || row.State != job.Available || row.Attempt != 0 || row.Fence != 0 {
			t.Errorf("row %+v, %v", row, err)
		}
		if err := u.close(); err != nil {
			t.Error(err)
		}
		// A process that knows it takes it.
		w := r.worker()
		worker.Handle(w, func(context.Context, *worker.Job[other]) error { return nil })
		r.run(w)
		r.reaches(unknown, job.Completed)
	})
}

func TestAKindWithSlotsKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots = 10 })
	g := newGate()
	worker.Handle(w, g.handle, worker.HandlerOptions{Slots: 2})
	worker.Handle(w, func(context.Context, *worker.Job[other]) error { return nil })
	var specs []job.Spec
	for range 40 {
		specs = append(specs, job.Spec{Args: task{}})
	}
	if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	u := r.run(w)
	receive(t, g.started, "start")
	receive(t, g.started, "start")
	begun := time.Now()
	r.await("no more of the kind is held than runs", func() bool { return u.Stats().Held == 2 })
	if took := time.Since(begun); took > 900*time.Millisecond { // a second is when what has stalled is given back
		t.Errorf("that took %v", took)
	}
	r.reaches(r.add(other{}), job.Completed)
	if n := r.count("SELECT count(*) FROM %s.live WHERE state = 0 AND attempt <> 0"); n != 0 {
		t.Errorf("%d attempts were counted", n)
	}
	// A second process has slots for the kind: what the first cannot run is there for it.
	second := on(t, "none", r.pool, r.namespace)
	second.start(func(context.Context, *worker.Job[task]) error { return nil })
	r.await("the second process runs the rest", func() bool { return r.count("SELECT count(*) FROM %s.outcomes") == 39 })
	if len(g.started) != 0 {
		t.Errorf("%d more started than the kind has slots", len(g.started))
	}
	close(g.free)
	r.await("all ended", func() bool { return r.count("SELECT count(*) FROM %s.live") == 0 })
}

// A claim takes of a capped kind what there is room for and leaves the rest where it is: taken and given back it would get a
// new place behind what came later. Five jobs are fewer than the lane's slots: the scan that leaves four behind is complete,
// and its cursor passes them.
func TestACappedKindKeepsItsOrder(t *testing.T) {
	t.Parallel()
	for _, jobs := range []int{5, 40} {
		t.Run(fmt.Sprint(jobs, " jobs"), func(t *testing.T) {
			t.Parallel()
			cappedKindInOrder(t, jobs)
		})
	}
}

func cappedKindInOrder(t *testing.T, jobs int) {
	r := setup(t, "none")
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots, c.Poll = 10, time.Minute })
	var mu sync.Mutex
	var got []job.ID // of those that were taken once
	worker.Handle(w, func(_ context.Context, j *worker.Job[task]) error {
		mu.Lock()
		defer mu.Unlock()
		if j.Fence == 1 {
			got = append(got, j.ID)
		}
		return nil
	}, worker.HandlerOptions{Slots: 1})
	specs := make([]job.Spec, jobs)
	for i := range specs {
		specs[i].Args = task{}
	}
	want, err := r.EnqueueMany(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	u := r.run(w)
	r.await("all ended", func() bool { return u.Stats().Completed == int64(jobs) })
	mu.Lock()
	defer mu.Unlock()
	// A machine that stands still for longer than a prefetch may last has a few given back.
	if len(got) < jobs*3/4 {
		t.Errorf("%d of %d jobs were taken once", len(got), jobs)
	}
	last := -1
	for _, id := range got {
		at := slices.IndexFunc(want, func(e client.Enqueued) bool { return e.ID == id })
		if at < last {
			t.Fatalf("job %d started after job %d", at, last)
		}
		last = at
	}
}

// The slots of one queue or kind are full while others are free: what waits for them starts when one is freed, not with
// the next poll.
func TestAFreedSlotIsUsedAtOnceThoughOtherQueuesAreIdle(t *testing.T) {
	t.Parallel()
	for name, byKind := range map[string]bool{"a queue's slot": false, "a kind's slot": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t, "none")
			w := r.worker(longPoll, func(c *worker.Config) {
				c.Queues = []worker.Queue{{Name: "default", Slots: 1}, {Name: "other", Slots: 1}}
				if byKind {
					c.Queues[0].Slots = 10
				}
			})
			g := newGate()
			worker.Handle(w, g.handle, worker.HandlerOptions{Slots: 1})
			u := r.run(w)
			first := r.add(task{})
			receive(t, g.started, "start")
			second := r.add(task{})
			r.settled(u)
			begun := time.Now()
			close(g.free)
			r.reaches(first, job.Completed)
			r.reaches(second, job.Completed)
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("the second started %v after the first had ended", took)
			}
		})
	}
}

func TestABusyWorkerWhosePollIsDueDoesNotSpin(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	g := newGate()
	u := r.start(g.handle, func(c *worker.Config) { c.Queues[0].Slots, c.Poll = 1, 10*time.Millisecond })
	r.add(task{})
	receive(t, g.started, "start")
	r.await("the poll is due", func() bool { return time.Since(u.Stats().PolledAt) > 100*time.Millisecond })
	looks := u.Stats().Looks
	<-time.After(500 * time.Millisecond)
	if n := u.Stats().Looks - looks; n > 20 {
		t.Errorf("it looked %d times in half a second, with no slot free", n)
	}
	close(g.free)
}

func TestAJobWithoutALogRowIsPutOffAndThenDiscarded(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	id := r.add(task{})
	r.exec("DELETE FROM %s.jobs WHERE id = $1", id)
	var h hooks
	w := r.worker(longPoll, h.install, func(c *worker.Config) { c.MissingPayloadGrace = 1500 * time.Millisecond })
	worker.Handle(w, func(context.Context, *worker.Job[task]) error { t.Error("the handler ran"); return nil })
	begun := time.Now()
	u := r.run(w)
	r.await("it was given back", func() bool { return u.Stats().Released > 0 })
	if n := r.count("SELECT count(*) FROM %s.live WHERE state = 0 AND attempt = 0"); n != 1 {
		t.Error("the attempt was counted, or it runs")
	}
	row := r.reaches(id, job.Discarded)
	if took := time.Since(begun); took < 1500*time.Millisecond || took > 5*time.Second {
		t.Errorf("it was discarded after %v", took)
	}
	if !strings.Contains(row.Error, "payload is missing") {
		t.Errorf("error %q", row.Error)
	}
	h.wasTold(t, 1, 0)
}

func TestAPayloadThatOutlivedTheLogIsFound(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	id := r.add(task{N: 42}, job.Options{Tags: []string{"kept"}})
	r.exec("INSERT INTO %[1]s.jobs_kept SELECT * FROM %[1]s.jobs WHERE id = $1", id)
	r.exec("DELETE FROM %s.jobs WHERE id = $1", id)
	rows := make(chan job.Row, 1)
	r.start(func(_ context.Context, j *worker.Job[task]) error { rows <- j.Row; return nil })
	if row := receive(t, rows, "start"); string(row.Payload) != `{"n":42}` || fmt.Sprint(row.Tags) != "[kept]" {
		t.Errorf("row %+v", row)
	}
}

func TestABatchOfResultsIsOneStatement(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	const jobs = 2000
	specs := make([]job.Spec, jobs)
	for i := range specs {
		specs[i].Args = task{N: i}
	}
	if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	r.exec("CREATE TABLE %s.statements (n int)")
	r.exec(`CREATE FUNCTION %[1]s.count_statement() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO %[1]s.statements VALUES (1); RETURN NULL; END'`)
	r.exec("CREATE TRIGGER one AFTER DELETE ON %[1]s.live FOR EACH STATEMENT EXECUTE FUNCTION %[1]s.count_statement()")
	r.start(func(context.Context, *worker.Job[task]) error { return nil }, func(c *worker.Config) { c.Queues[0].Slots = 100 })
	r.await("all ended", func() bool { return r.count("SELECT count(*) FROM %s.live") == 0 })
	if n := r.count("SELECT count(*) FROM %s.statements"); n > jobs/10 {
		t.Errorf("%d statements for the results of %d jobs", n, jobs)
	}
}

// Handlers that ask the application's pool, of one connection, for a transaction each and enqueue in it.
func TestHandlersMayUseUpTheApplicationsPool(t *testing.T) {
	t.Parallel()
	big, namespace := testenv.Schema(t)
	small := testenv.Pool(t, testenv.Postgres(t)+poolSuffix(testenv.Postgres(t))+"pool_max_conns=1")
	r := on(t, testenv.RedisNone, small, namespace)
	var specs []job.Spec
	for n := range 50 {
		specs = append(specs, job.Spec{Args: task{N: n}})
	}
	if _, err := r.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	w := r.worker(func(c *worker.Config) { c.Queues[0].Slots = 20 })
	worker.Handle(w, func(ctx context.Context, _ *worker.Job[task]) error {
		tx, err := small.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if _, err := r.EnqueueTx(ctx, tx, other{}); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	worker.Handle(w, func(context.Context, *worker.Job[other]) error { return nil })
	u := r.run(w)
	look := on(t, testenv.RedisNone, big, namespace)
	look.await("all ended", func() bool {
		return look.count("SELECT count(*) FROM %s.live") == 0 && u.Stats().Completed == 100
	})
	if s := u.Stats(); s.Retried > 0 || s.RenewLag > time.Second {
		t.Errorf("stats %+v", s)
	}
}

func TestHandlersThatUseUpTheApplicationsPoolDoNotStopTheSweeper(t *testing.T) {
	t.Parallel()
	big, namespace := testenv.Schema(t)
	small := testenv.Pool(t, testenv.Postgres(t)+poolSuffix(testenv.Postgres(t))+"pool_max_conns=1")
	r := on(t, testenv.RedisNone, small, namespace)
	look := on(t, testenv.RedisNone, big, namespace)
	hold, err := small.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Release()
	gone := look.IDs().New() // a process without a row that ran a job
	id := look.add(task{})
	look.exec("UPDATE %s.live SET state = 1, session = $1, attempt = 1, fence = 1, claimed_at = clock_timestamp()", gone)
	w := r.worker(func(c *worker.Config) { c.Sweep = true })
	worker.Handle(w, func(context.Context, *worker.Job[task]) error { return nil })
	r.run(w)
	look.reaches(id, job.Completed)
}

func poolSuffix(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}
