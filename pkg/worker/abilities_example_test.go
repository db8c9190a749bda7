package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// withAndWithoutRedis calls f with a client with Redis and with one without, each on a schema of its own.
func withAndWithoutRedis(f func(ctx context.Context, c *client.Client)) {
	for _, mode := range []testenv.RedisMode{testenv.RedisMini, testenv.RedisNone} {
		fmt.Println("mode", mode)
		withScheduled(mode, f)
	}
}

// welcomeFailed is the failure job of welcome: what has become of it, and why.
type welcomeFailed struct{ job.Failure }

func (welcomeFailed) Kind() string { return "mail.welcome_failed" }

// A job that is discarded adds its failure job in the same statement.
func ExampleHandle_failureJob() {
	withAndWithoutRedis(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{})
		if err != nil {
			panic(err)
		}
		worker.Handle(w, func(context.Context, *worker.Job[welcome]) error { return errors.New("no such mailbox") })
		worker.Handle(w, func(_ context.Context, j *worker.Job[welcomeFailed]) error {
			fmt.Printf("%s %s ended after attempt %d: %s\n", j.Args.Failure.Kind, j.Args.Payload, j.Args.Failure.Attempt, j.Args.Error)
			return nil
		})
		options := job.Options{MaxAttempts: job.NoRetry, OnDiscard: welcomeFailed{}.Kind()}
		if _, err := c.Enqueue(ctx, welcome{UserID: 7}, options); err != nil {
			panic(err)
		}
		n, err := w.Drain(ctx, worker.DrainOptions{})
		fmt.Println(n.Discarded, n.Completed, err)
	})
	// Output:
	// mode miniredis
	// mail.welcome {"user_id":7} ended after attempt 1: no such mailbox
	// 1 1 <nil>
	// mode none
	// mail.welcome {"user_id":7} ended after attempt 1: no such mailbox
	// 1 1 <nil>
}

// What a handler says of its progress is seen within a quarter of a second with Redis; its last word is kept with the job.
func ExampleJob_Progress() {
	withAndWithoutRedis(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{})
		if err != nil {
			panic(err)
		}
		worker.Handle(w, func(_ context.Context, j *worker.Job[report]) error {
			for day := range j.Args.Days {
				j.Progress(100*(day+1)/j.Args.Days, fmt.Sprintf("day %d", day+1)) // costs nothing, however often
			}
			return nil
		})
		e, err := c.Enqueue(ctx, report{Days: 4})
		if err != nil {
			panic(err)
		}
		if _, err := w.Drain(ctx, worker.DrainOptions{}); err != nil {
			panic(err)
		}
		p, ok, err := c.Progress(ctx, e.ID)
		fmt.Println(p.Percent, p.Note, ok, err)
	})
	// Output:
	// mode miniredis
	// 100 day 4 true <nil>
	// mode none
	// 100 day 4 true <nil>
}

// An attempt goes on where the one before has stopped.
func ExampleJob_Checkpoint() {
	withAndWithoutRedis(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{})
		if err != nil {
			panic(err)
		}
		worker.Handle(w, func(ctx context.Context, j *worker.Job[report]) error {
			var day int // done so far
			if _, err := j.LoadCheckpoint(ctx, &day); err != nil {
				return err
			}
			for ; day < j.Args.Days; day++ {
				if day == 2 && j.Attempt == 1 {
					return errors.New("a power cut")
				}
				fmt.Println("attempt", j.Attempt, "writes day", day+1)
				if err := j.Checkpoint(day + 1); err != nil {
					return err
				}
			}
			return nil
		})
		if _, err := c.Enqueue(ctx, report{Days: 3}); err != nil {
			panic(err)
		}
		if _, err := w.Drain(ctx, worker.DrainOptions{Delayed: true}); err != nil {
			panic(err)
		}
	})
	// Output:
	// mode miniredis
	// attempt 1 writes day 1
	// attempt 1 writes day 2
	// attempt 2 writes day 3
	// mode none
	// attempt 1 writes day 1
	// attempt 1 writes day 2
	// attempt 2 writes day 3
}

// The context of a running handler ends when its job is cancelled: within a tenth of a second with Redis, else with the next
// renewal of the lease.
func ExampleHandle_cancel() {
	withAndWithoutRedis(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{Queues: []worker.Queue{{Name: "default", Slots: 5}}, Lease: 5 * time.Second})
		if err != nil {
			panic(err)
		}
		started := make(chan job.ID)
		worker.Handle(w, func(ctx context.Context, j *worker.Job[welcome]) error {
			started <- j.ID
			<-ctx.Done()
			return context.Cause(ctx)
		})
		running, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- w.Run(running) }()
		if _, err := c.Enqueue(ctx, welcome{UserID: 7}); err != nil {
			panic(err)
		}
		id := <-started
		fmt.Println(c.Cancel(ctx, id))

		_, err = client.Await[any](ctx, c, id)
		var failed *job.FailedError
		fmt.Println(errors.As(err, &failed) && failed.State == job.Cancelled, failed.Message)
		stop()
		fmt.Println(<-ended)
	})
	// Output:
	// mode miniredis
	// <nil>
	// true job: cancelled
	// <nil>
	// mode none
	// <nil>
	// true job: cancelled
	// <nil>
}

// Spans of a job are linked across the queue: to the one of the call that enqueued it, in whatever process that was.
func Example_tracing() {
	for _, mode := range []testenv.RedisMode{testenv.RedisMini, testenv.RedisNone} {
		spans := tracetest.NewSpanRecorder()
		// In a program: otel.GetTracerProvider(). Workers on the client use it too.
		withTracing(mode, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), func(ctx context.Context, c *client.Client) {
			w, err := worker.New(c, worker.Config{})
			if err != nil {
				panic(err)
			}
			worker.Handle(w, func(context.Context, *worker.Job[welcome]) error { return nil })
			if _, err := c.Enqueue(ctx, welcome{UserID: 7}); err != nil {
				panic(err)
			}
			if _, err := w.Drain(ctx, worker.DrainOptions{}); err != nil {
				panic(err)
			}
		})
		named := map[string]sdktrace.ReadOnlySpan{}
		for _, s := range spans.Ended() {
			named[s.Name()] = s
		}
		attempt := named["job mail.welcome"]
		fmt.Println(mode, len(attempt.Links()) == 1 && attempt.Links()[0].SpanContext.SpanID() == named["enqueue mail.welcome"].SpanContext().SpanID())
		for _, name := range []string{"pickup", "execute", "finish"} {
			fmt.Println(name, named[name].Parent().SpanID() == attempt.SpanContext().SpanID())
		}
	}
	// Output:
	// miniredis true
	// pickup true
	// execute true
	// finish true
	// none true
	// pickup true
	// execute true
	// finish true
}

// withTracing calls f with a client on a schema of its own, whose spans go to provider.
func withTracing(mode testenv.RedisMode, provider *sdktrace.TracerProvider, f func(ctx context.Context, c *client.Client)) {
	t := &exampleT{}
	defer t.end()
	pool, namespace := testenv.Schema(t)
	c, err := client.New(pool, client.Config{Namespace: namespace, Redis: testenv.RedisClient(t, mode), Tracing: provider})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	f(context.Background(), c)
}
