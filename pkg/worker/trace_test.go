package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// tracedRig returns a rig whose client's spans are kept.
func tracedRig(t *testing.T) (*rig, *tracetest.SpanRecorder) {
	t.Helper()
	pool, namespace := testenv.Schema(t)
	kept := tracetest.NewSpanRecorder()
	c, err := client.New(pool, client.Config{Namespace: namespace, Tracing: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(kept))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &rig{c, t, pool, namespace}, kept
}

func TestTheSpansOfAJobAreLinkedAcrossTheQueue(t *testing.T) {
	t.Parallel()
	r, kept := tracedRig(t)
	r.start(func(ctx context.Context, j *worker.Job[task]) error {
		if j.Args.N == 1 {
			_, err := client.FromContext(ctx).Enqueue(ctx, task{N: 2})
			return err
		}
		if j.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	r.add(task{N: 1}, job.Options{Backoff: job.Fixed(time.Millisecond)})
	ended := func(name string) (found []sdktrace.ReadOnlySpan) {
		for _, s := range kept.Ended() {
			if s.Name() == name {
				found = append(found, s)
			}
		}
		slices.SortFunc(found, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) }) // an answer may come late
		return found
	}
	r.await("three attempts", func() bool { return len(ended("job task")) == 3 })
	enqueues, jobs, executes := ended("enqueue task"), ended("job task"), ended("execute")
	if len(enqueues) != 2 || len(executes) != 3 || len(ended("pickup")) != 3 || len(ended("finish")) != 3 {
		t.Fatalf("spans: %d enqueue, %d execute, %d pickup, %d finish", len(enqueues), len(executes), len(ended("pickup")), len(ended("finish")))
	}
	// The first job's attempt is linked to the first enqueue; the second job's two attempts to the second one, which was made
	// within the first job's execute span.
	for i, from := range []int{0, 1, 1} {
		links := jobs[i].Links()
		if len(links) != 1 || links[0].SpanContext.SpanID() != enqueues[from].SpanContext().SpanID() {
			t.Errorf("job span %d has links %v, want the one to enqueue span %d", i, links, from)
		}
		if jobs[i].SpanKind() != trace.SpanKindConsumer || executes[i].Parent().SpanID() != jobs[i].SpanContext().SpanID() {
			t.Errorf("job span %d: kind %v, its execute span is another's child", i, jobs[i].SpanKind())
		}
	}
	if enqueues[1].Parent().SpanID() != executes[0].SpanContext().SpanID() {
		t.Error("the enqueue in a handler is not within its execute span")
	}
	if executes[1].Status().Description != "not yet" || jobs[1].Status().Description == "" || executes[2].Status().Description != "" {
		t.Errorf("the failed attempt says %q, the next one %q", executes[1].Status().Description, executes[2].Status().Description)
	}
}
