package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// noop is the job of the speed cases.
type noop struct {
	N int `json:"n"`
}

func (noop) Kind() string { return "noop" }

const enqueueTime = 2 * time.Second

func enqueueCases() []Case {
	cases := []Case{{
		Name: "enqueue_bulk", About: "EnqueueMany of 1,000 jobs, two callers", Quick: true,
		Run: on("bulk", func(ctx context.Context, s *stage) ([]Figure, error) {
			v, err := rounds(3, func() (float64, error) { return s.enqueueRate(ctx, 2, 1000) })
			return []Figure{{Case: "enqueue_bulk", Name: "rate", Value: v, Unit: "jobs/s", Want: ">= 80000"}}, err
		}),
	}}
	wants := map[int]string{1: ">= 4000", 16: ">= 20000", 64: ">= 40000"}
	for _, callers := range []int{1, 16, 64} {
		name := fmt.Sprintf("enqueue_single_%d", callers)
		cases = append(cases, Case{
			Name: name, About: fmt.Sprintf("Enqueue of one job, %d callers", callers), Quick: true,
			Run: on("single", func(ctx context.Context, s *stage) ([]Figure, error) {
				v, err := rounds(3, func() (float64, error) { return s.enqueueRate(ctx, callers, 1) })
				figures := []Figure{{Case: name, Name: "rate", Value: v, Unit: "jobs/s", Want: wants[callers]}}
				if callers > 1 || err != nil {
					return figures, err
				}
				bare, err := rounds(3, func() (float64, error) { return s.bareInserts(ctx) })
				return append(figures,
					Figure{Case: name, Name: "bare_insert", Value: bare, Unit: "rows/s", Note: "what one connection commits of one-row inserts"},
					Figure{Case: name, Name: "of_bare_insert", Value: v / bare, Unit: "ratio"}), err
			}),
		})
	}
	return cases
}

// enqueueRate lets callers enqueue batches for a while and returns the jobs a second that were acknowledged.
func (s *stage) enqueueRate(ctx context.Context, callers, batch int) (float64, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int
		fail  error
	)
	begun := time.Now()
	until := begun.Add(enqueueTime)
	for range callers {
		wg.Go(func() {
			n, err := 0, error(nil)
			for err == nil && time.Now().Before(until) {
				err = s.enqueue(ctx, n, batch)
				n += batch
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
			if err != nil {
				fail = err
			}
		})
	}
	wg.Wait()
	rate := float64(total) / time.Since(begun).Seconds()
	if fail == nil {
		fail = s.exec(ctx, `TRUNCATE %[1]q.jobs, %[1]q.live`, s.namespace)
	}
	return rate, fail
}

func (s *stage) enqueue(ctx context.Context, from, n int) error {
	if n == 1 {
		_, err := s.client.Enqueue(ctx, noop{N: from})
		return err
	}
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i].Args = noop{N: from + i}
	}
	_, err := s.client.EnqueueMany(ctx, specs)
	return err
}

// fill enqueues n jobs in batches.
func (s *stage) fill(ctx context.Context, n int) error {
	for sent := 0; sent < n; sent += 10_000 {
		if err := s.enqueue(ctx, sent, min(10_000, n-sent)); err != nil {
			return err
		}
	}
	return nil
}

// bareInserts returns how many rows a second one caller inserts into a small table, each in a transaction of its own: what
// the disk and the way to the server allow.
func (s *stage) bareInserts(ctx context.Context) (float64, error) {
	begun := time.Now()
	n := 0
	for ; time.Since(begun) < enqueueTime; n++ {
		if err := s.exec(ctx, `INSERT INTO %q.actions (who, verb, target) VALUES ('bench', 'insert', '')`, s.namespace); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}
