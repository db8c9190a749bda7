package weirtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/weirtest"
	"github.com/weirq/weir/pkg/worker"
)

// The servers of Start go with the process; so do the goroutines that wait for them.
func TestMain(m *testing.M) { testenv.Main(m, testenv.IgnoreServers()) }

type welcome struct {
	UserID int64 `json:"user_id"`
}

func (welcome) Kind() string         { return "mail.welcome" }
func (welcome) Options() job.Options { return job.Options{Queue: "mail", MaxAttempts: 8} }

type survey struct{}

func (survey) Kind() string { return "survey" }

// start is Start on the server that all tests of this repository share.
func start(t testing.TB, queues ...string) *weirtest.Queue {
	t.Helper()
	cfg := worker.Config{}
	for _, name := range append(queues, "default", "mail") {
		cfg.Queues = append(cfg.Queues, worker.Queue{Name: name, Slots: 5})
	}
	return weirtest.Start(t, weirtest.StartOptions{PostgresURL: testenv.Postgres(t), Worker: cfg})
}

// recorder is a testing.TB whose failure can be looked at.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	panic(r)
}

// failure returns the text with which f fails its test; empty if it does not.
func failure(t testing.TB, f func(testing.TB)) string {
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(r) {
				panic(v)
			}
		}()
		f(r)
	}()
	return r.failed
}

func TestAJobIsSeenInItsTransactionOnly(t *testing.T) {
	t.Parallel()
	q := start(t)
	ns := weirtest.Namespace(q.Namespace)
	tx, err := q.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, err := q.Client.EnqueueTx(t.Context(), tx, welcome{UserID: 7}, job.Options{Priority: 2, Tags: []string{"eu"}, Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	j := weirtest.RequireEnqueued[welcome](t, tx, ns, weirtest.OnQueue("mail"))
	if j.Args.UserID != 7 || j.ID != e.ID || j.Priority != 2 || j.MaxAttempts != 8 || fmt.Sprint(j.Tags) != "[eu]" || time.Until(j.ReadyAt) < 50*time.Minute {
		t.Errorf("got %+v", j)
	}
	weirtest.RequireEnqueued[welcome](t, q.Pool, ns, weirtest.Count(0))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := failure(t, func(t testing.TB) { weirtest.RequireEnqueued[welcome](t, q.Pool, ns) }); !strings.Contains(text, "no jobs at all") {
		t.Errorf("failure %q", text)
	}
}

func TestAFailureSaysWhatIsThereInstead(t *testing.T) {
	t.Parallel()
	q := start(t)
	ns := weirtest.Namespace(q.Namespace)
	for _, args := range []job.Args{welcome{UserID: 1}, welcome{UserID: 2}, survey{}} {
		if _, err := q.Client.Enqueue(t.Context(), args); err != nil {
			t.Fatal(err)
		}
	}
	weirtest.RequireEnqueued[survey](t, q.Pool, ns)
	if j := weirtest.RequireEnqueued[welcome](t, q.Pool, ns, weirtest.Count(2)); j.Args.UserID != 1 {
		t.Errorf("the oldest is %+v", j)
	}
	text := failure(t, func(t testing.TB) { weirtest.RequireEnqueued[welcome](t, q.Pool, ns) })
	for _, want := range []string{"2 jobs of kind mail.welcome", "want 1", "there are 3 jobs", `{"user_id":2}`, "survey", "queue mail"} {
		if !strings.Contains(text, want) {
			t.Errorf("failure %q has no %q", text, want)
		}
	}
	text = failure(t, func(t testing.TB) { weirtest.RequireEnqueued[welcome](t, q.Pool, ns, weirtest.OnQueue("post")) })
	if !strings.Contains(text, "0 jobs of kind mail.welcome in queue post") {
		t.Errorf("failure %q", text)
	}
	for _, db := range []any{nil, 7, "weir"} {
		if text := failure(t, func(t testing.TB) { weirtest.RequireEnqueued[welcome](t, db, ns) }); !strings.Contains(text, "neither of pgx") {
			t.Errorf("%v: failure %q", db, text)
		}
	}
	if text := failure(t, func(t testing.TB) { weirtest.RequireEnqueued[welcome](t, q.Pool, weirtest.Namespace("nowhere")) }); !strings.Contains(text, "nowhere") {
		t.Errorf("failure %q", text)
	}
}

func TestAJobOfATransactionOfDatabaseSQLIsSeen(t *testing.T) {
	t.Parallel()
	q := start(t)
	db := stdlib.OpenDBFromPool(q.Pool)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := q.Client.EnqueueSQLTx(t.Context(), tx, welcome{UserID: 9}); err != nil {
		t.Fatal(err)
	}
	if j := weirtest.RequireEnqueued[welcome](t, tx, weirtest.Namespace(q.Namespace)); j.Args.UserID != 9 {
		t.Errorf("got %+v", j)
	}
}

func TestExecuteTellsWhatBecomesOfTheJob(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	returns := map[int64]error{1: nil, 2: boom, 3: job.Cancel(boom), 4: job.Discard(boom), 5: job.Snooze(time.Hour), 6: job.RetryIn(time.Minute, boom)}
	handle := func(_ context.Context, j *worker.Job[welcome]) error {
		if j.Args.UserID == 7 {
			panic("boom")
		}
		return returns[j.Args.UserID]
	}
	for id, want := range map[int64]job.State{
		1: job.Completed, 2: job.Retrying, 3: job.Cancelled, 4: job.Discarded, 5: job.Scheduled, 6: job.Retrying, 7: job.Retrying,
	} {
		r := weirtest.Execute(t, handle, welcome{UserID: id})
		if r.Next.State != want {
			t.Errorf("%d: %+v", id, r)
		}
		if id == 6 && r.Next.Delay != time.Minute {
			t.Errorf("retry in %v", r.Next.Delay)
		}
		var p *job.PanicError
		if id == 7 && (!errors.As(r.Err, &p) || !strings.Contains(p.Stack, "weirtest_test.go")) {
			t.Errorf("error %v", r.Err)
		}
	}
	weirtest.Execute(t, handle, welcome{UserID: 2}, weirtest.ExecuteOptions{Attempt: 8}).RequireDiscarded(t)
	text := failure(t, func(t testing.TB) { weirtest.Execute(t, handle, welcome{UserID: 3}).RequireCompleted(t) })
	if !strings.Contains(text, "the job is cancelled, want completed; its error: boom") {
		t.Errorf("failure %q", text)
	}
	for _, require := range []func(weirtest.Result, testing.TB){
		weirtest.Result.RequireRetried, weirtest.Result.RequireSnoozed, weirtest.Result.RequireDiscarded, weirtest.Result.RequireCancelled,
	} {
		if text := failure(t, func(tb testing.TB) { require(weirtest.Execute(t, handle, welcome{UserID: 1}), tb) }); text == "" {
			t.Error("a completed job passes for another")
		}
	}
}

func TestExecuteKeepsTheTimeoutAndCallsMiddlewareAndHooks(t *testing.T) {
	t.Parallel()
	var told []string
	r := weirtest.Execute(t, func(ctx context.Context, j *worker.Job[welcome]) error {
		if client.FromContext(ctx) == nil || j.Queue != "mail" || j.Attempt != 3 || j.MaxAttempts != 5 || j.ID.IsZero() {
			t.Errorf("job %+v", j.Row)
		}
		worker.Logger(ctx).Info("from a test")
		<-ctx.Done()
		return nil
	}, welcome{}, weirtest.ExecuteOptions{
		Job: job.Options{Timeout: 20 * time.Millisecond, MaxAttempts: 5}, Attempt: 3,
		Worker: worker.Config{
			Middleware: []worker.Middleware{func(ctx context.Context, _ *job.Row, next func(context.Context) error) error {
				told = append(told, "middleware")
				return next(ctx)
			}},
			OnError: func(_ context.Context, _ job.Row, err error, _ worker.Next) { told = append(told, err.Error()) },
		},
	})
	r.RequireRetried(t)
	if !errors.Is(r.Err, job.ErrTimeout) || strings.Join(told, ", ") != "middleware, job: timeout" {
		t.Errorf("error %v, told %q", r.Err, told)
	}
}

func TestExecuteResultReturnsTheValue(t *testing.T) {
	t.Parallel()
	r := weirtest.ExecuteResult(t, func(_ context.Context, j *worker.Job[welcome]) (map[string]int64, error) {
		return map[string]int64{"user": j.Args.UserID}, nil
	}, welcome{UserID: 7})
	r.RequireCompleted(t)
	if r.Value["user"] != 7 || string(r.JSON) != `{"user":7}` {
		t.Errorf("result %+v", r)
	}
	large := weirtest.ExecuteResult(t, func(context.Context, *worker.Job[welcome]) (string, error) {
		return strings.Repeat("x", job.MaxResultBytes), nil
	}, welcome{})
	large.RequireDiscarded(t)
}

func TestExecuteWithoutADatabaseFailsACallThatNeedsOne(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	r := weirtest.Execute(t, func(ctx context.Context, _ *worker.Job[welcome]) error {
		_, err := client.FromContext(ctx).Enqueue(ctx, survey{})
		return err
	}, welcome{})
	r.RequireRetried(t)
	if time.Since(begun) > 5*time.Second {
		t.Errorf("it took %v to fail", time.Since(begun))
	}
}

func TestAQueueOfItsOwnRunsJobsThatEnqueueJobs(t *testing.T) {
	t.Parallel()
	q := start(t)
	worker.Handle(q.Worker, func(ctx context.Context, _ *worker.Job[welcome]) error {
		return q.Client.InTx(ctx, func(tx pgx.Tx) error {
			_, err := q.Client.EnqueueTx(ctx, tx, survey{}, job.Options{Delay: 72 * time.Hour})
			return err
		})
	})
	worker.Handle(q.Worker, func(context.Context, *worker.Job[survey]) error { return nil })
	if _, err := q.Client.Enqueue(t.Context(), welcome{}); err != nil {
		t.Fatal(err)
	}
	if n := q.Drain(t); n.Completed != 1 {
		t.Errorf("drained %+v", n)
	}
	weirtest.RequireEnqueued[survey](t, q.Pool, weirtest.Namespace(q.Namespace))
	if n := q.Drain(t, weirtest.WithDelayed); n.Completed != 1 {
		t.Errorf("drained %+v", n)
	}
}

func TestStartFindsAServerByItself(t *testing.T) {
	q := weirtest.Start(t)
	worker.Handle(q.Worker, func(context.Context, *worker.Job[survey]) error { return nil })
	if _, err := q.Client.Enqueue(t.Context(), survey{}); err != nil {
		t.Fatal(err)
	}
	if n := q.Drain(t); n.Completed != 1 {
		t.Errorf("drained %+v", n)
	}
}
