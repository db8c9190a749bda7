package weirtest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// ExecuteOptions say what a handler is called with. The zero value is the first attempt of a job as it is enqueued by
// default.
type ExecuteOptions struct {
	// Job is what the job was enqueued with, on top of the defaults of its args.
	Job job.Options
	// Attempt is the number of the attempt, this one included. Zero means 1.
	Attempt int
	// Handler is what the handler is registered with: its timeout, backoff and middleware.
	Handler worker.HandlerOptions
	// Worker is the configuration: middleware and hooks of all handlers. Only what concerns one attempt is used.
	Worker worker.Config
	// Client is what client.FromContext returns in the handler. Nil means one without a database: its calls fail.
	Client *client.Client
}

// Result is what an attempt came to.
type Result struct {
	// Next is what would happen to the job.
	Next worker.Next
	// Err is what the handler returned, without the wrapping of job.Cancel and job.Discard; nil if the job completed. It
	// is a *job.PanicError if the handler panicked, and job.ErrTimeout if it took too long.
	Err error
	// JSON is the result as it would be stored; nil if there is none.
	JSON json.RawMessage
}

// ResultOf is a Result with the value that the handler returned, through its JSON.
type ResultOf[R any] struct {
	Result
	Value R // zero unless the job completed
}

// Execute calls a handler of worker.Handle the way a worker does, in a goroutine of its own, and returns what would become
// of the job. There is no database: FinishTx fails, and so does a Client that was not given.
func Execute[T job.Args](t testing.TB, f func(context.Context, *worker.Job[T]) error, args T, opts ...ExecuteOptions) Result {
	t.Helper()
	return execute(t, args, opts, func(w *worker.Worker, h worker.HandlerOptions) { worker.Handle(w, f, h) })
}

// ExecuteResult is Execute for a handler of worker.HandleResult.
func ExecuteResult[T job.Args, R any](t testing.TB, f func(context.Context, *worker.Job[T]) (R, error), args T, opts ...ExecuteOptions) ResultOf[R] {
	t.Helper()
	r := ResultOf[R]{Result: execute(t, args, opts, func(w *worker.Worker, h worker.HandlerOptions) { worker.HandleResult(w, f, h) })}
	if r.Next.State == job.Completed && len(r.JSON) > 0 {
		if err := json.Unmarshal(r.JSON, &r.Value); err != nil {
			t.Fatalf("weirtest: decode the result %s into %T: %v", r.JSON, r.Value, err)
		}
	}
	return r
}

func execute(t testing.TB, args job.Args, opts []ExecuteOptions, register func(*worker.Worker, worker.HandlerOptions)) Result {
	t.Helper()
	var o ExecuteOptions
	if len(opts) > 1 {
		t.Fatal("weirtest: ExecuteOptions are given twice")
	}
	if len(opts) == 1 {
		o = opts[0]
	}
	c := o.Client
	if c == nil {
		c = offline(t)
	}
	row, err := rowOf(c.IDs().New, args, o.Job)
	if err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	row.Attempt = max(o.Attempt, 1)
	row.Fence = row.Attempt
	w, err := worker.New(c, o.Worker)
	if err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	register(w, o.Handler)
	next, result, err := w.Perform(t.Context(), row)
	return Result{Next: next, Err: err, JSON: result}
}

// rowOf returns the row of a job as a worker would have claimed it for its first attempt.
func rowOf(newID func() job.ID, args job.Args, over job.Options) (job.Row, error) {
	kind, payload, err := job.Encode(args)
	if err != nil {
		return job.Row{}, err
	}
	opts, err := job.OptionsOf(args).Merge(over).Complete()
	if err != nil {
		return job.Row{}, err
	}
	id := opts.ID
	if id.IsZero() {
		id = newID()
	}
	now := time.Now()
	ready := now.Add(opts.Delay)
	if opts.ScheduledAt.After(ready) {
		ready = opts.ScheduledAt
	}
	return job.Row{
		ID: id, Kind: kind, Queue: opts.Queue, Priority: opts.Priority, State: job.Running, Attempt: 1,
		MaxAttempts: opts.MaxAttempts, Fence: 1, Payload: payload, Timeout: opts.Timeout, Backoff: opts.Backoff, Mode: opts.Mode,
		Tags: opts.Tags, Metadata: opts.Metadata, EnqueuedAt: now, ScheduledAt: opts.ScheduledAt, ReadyAt: ready, ClaimedAt: now,
	}, nil
}

// offline returns a client whose pool has nowhere to connect to, and does not try until it is asked.
func offline(t testing.TB) *client.Client {
	t.Helper()
	cfg, err := pgxpool.ParseConfig("host=127.0.0.1 port=1 user=nobody dbname=none sslmode=disable connect_timeout=1")
	if err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	t.Cleanup(pool.Close)
	c, err := client.New(pool, client.Config{Timeout: time.Second})
	if err != nil {
		t.Fatalf("weirtest: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// RequireCompleted fails the test at once unless the job completed.
func (r Result) RequireCompleted(t testing.TB) { t.Helper(); r.require(t, job.Completed) }

// RequireRetried fails the test at once unless the attempt failed and will be made again; Next.Delay is when.
func (r Result) RequireRetried(t testing.TB) { t.Helper(); r.require(t, job.Retrying) }

// RequireSnoozed fails the test at once unless the handler put its job off.
func (r Result) RequireSnoozed(t testing.TB) { t.Helper(); r.require(t, job.Scheduled) }

// RequireDiscarded fails the test at once unless the job ended as discarded.
func (r Result) RequireDiscarded(t testing.TB) { t.Helper(); r.require(t, job.Discarded) }

// RequireCancelled fails the test at once unless the job ended as cancelled.
func (r Result) RequireCancelled(t testing.TB) { t.Helper(); r.require(t, job.Cancelled) }

func (r Result) require(t testing.TB, want job.State) {
	t.Helper()
	if r.Next.State == want {
		return
	}
	stack := ""
	if p, ok := r.Err.(*job.PanicError); ok {
		stack = "\n" + p.Stack
	}
	t.Fatalf("weirtest: the job is %s, want %s; its error: %v%s", r.Next.State, want, r.Err, stack)
}
