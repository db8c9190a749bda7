package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

type noop struct {
	N int `json:"n"`
}

func (noop) Kind() string { return "noop" }

// BenchmarkNoop measures jobs to durable finish in one process: 100 slots, defaults, handlers that decode their JSON and
// do nothing. The jobs are there before the clock starts.
func BenchmarkNoop(b *testing.B) {
	c := benchClient(b)
	const jobs = 200_000
	for b.Loop() {
		b.StopTimer()
		enqueueNoops(b, c, jobs)
		w, err := worker.New(c, worker.Config{Queues: []worker.Queue{{Name: "default", Slots: 100}}})
		if err != nil {
			b.Fatal(err)
		}
		var done atomic.Int64
		worker.Handle(w, func(context.Context, *worker.Job[noop]) error { done.Add(1); return nil })
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		b.StartTimer()
		begun := time.Now()
		go func() { ended <- w.Run(ctx) }()
		for w.Stats().Completed < jobs {
			time.Sleep(5 * time.Millisecond)
		}
		b.ReportMetric(jobs/time.Since(begun).Seconds(), "jobs/s")
		b.Logf("%+v", w.Stats())
		b.StopTimer()
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
		if n := done.Load(); n != jobs {
			b.Fatalf("%d handler calls for %d jobs", n, jobs)
		}
		b.StartTimer()
	}
}

func benchClient(b *testing.B) *client.Client {
	pg := testenv.PrivatePostgres(b, "fsync", "on", "full_page_writes", "on", "synchronous_commit", "on")
	rdb := testenv.Client(b, testenv.PrivateRedis(b).URL())
	pool, ns := testenv.SchemaOn(b, pg.URL())
	c, err := client.New(pool, client.Config{Namespace: ns, Redis: rdb})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func enqueueNoops(b *testing.B, c *client.Client, n int) {
	b.Helper()
	for sent := 0; sent < n; {
		specs := make([]job.Spec, min(10_000, n-sent))
		for i := range specs {
			specs[i].Args = noop{N: sent + i}
		}
		if _, err := c.EnqueueMany(b.Context(), specs); err != nil {
			b.Fatal(fmt.Errorf("enqueue: %w", err))
		}
		sent += len(specs)
	}
}
