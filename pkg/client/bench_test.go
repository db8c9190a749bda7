package client_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

// durable returns a client of a private server that commits to disk, as nothing else gives figures that mean something.
func durable(b *testing.B) rig {
	b.Helper()
	pool, namespace := testenv.SchemaOn(b, testenv.PrivatePostgres(b, "fsync", "on").URL())
	return clientOn(b, pool, namespace)
}

// BenchmarkEnqueueSingle is the rate of Enqueue, each call durable when it returns, by callers at the same time.
func BenchmarkEnqueueSingle(b *testing.B) {
	c := durable(b)
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan error)
			b.ResetTimer()
			for range callers {
				go func() {
					for left.Add(-1) >= 0 {
						if _, err := c.Enqueue(context.Background(), welcome{UserID: 7}); err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range callers {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkEnqueueMany is the rate of one caller that enqueues 1,000 jobs a call.
func BenchmarkEnqueueMany(b *testing.B) {
	c := durable(b)
	jobs := make([]job.Spec, 1000)
	for i := range jobs {
		jobs[i].Args = welcome{UserID: int64(i)}
	}
	b.ResetTimer()
	for range b.N {
		if _, err := c.EnqueueMany(context.Background(), jobs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(jobs))/b.Elapsed().Seconds(), "jobs/s")
}
