package bench

import (
	"context"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/worker"
)

func pickupCases() []Case {
	return []Case{{
		Name: "pickup_100", About: "from before the call of Enqueue to the handler, 100 jobs/s, through another client (over Redis)", Quick: true,
		Run: on("pickup", func(ctx context.Context, s *stage) ([]Figure, error) {
			waits, err := s.pickup(ctx, 100, 5*time.Second)
			return []Figure{
				{Case: "pickup_100", Name: "p50", Value: quantile(waits, 0.5), Unit: "ms", Want: "<= 2"},
				{Case: "pickup_100", Name: "p99", Value: quantile(waits, 0.99), Unit: "ms"},
			}, err
		}),
	}}
}

// pickup enqueues at a fixed rate through a client of its own, as another process would (no wake inside the process), and
// returns in milliseconds how long each job took from before the call of Enqueue.
func (s *stage) pickup(ctx context.Context, perSecond int, d time.Duration) ([]float64, error) {
	var mu sync.Mutex
	began := make(map[int]time.Time)
	var waits []float64
	_, stop, err := s.worker(50, func(j *worker.Job[noop]) error {
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, ms(now.Sub(began[j.Args.N])))
		return nil
	})
	if err != nil {
		return nil, err
	}
	producer, err := client.New(s.pool, client.Config{Namespace: s.namespace, Redis: s.env.Redis, Pooler: s.env.Pooler})
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	time.Sleep(500 * time.Millisecond) // the worker subscribes and registers
	var wg sync.WaitGroup
	every := time.Second / time.Duration(perSecond)
	begun := time.Now()
	for n := 0; time.Duration(n)*every < d; n++ {
		at := begun.Add(time.Duration(n) * every)
		time.Sleep(time.Until(at))
		wg.Go(func() {
			mu.Lock()
			began[n] = time.Now()
			mu.Unlock()
			_, _ = producer.Enqueue(ctx, noop{N: n})
		})
	}
	wg.Wait()
	time.Sleep(300 * time.Millisecond)
	err = stop()
	mu.Lock()
	defer mu.Unlock()
	return waits[len(waits)/10:], err // the first tenth meets cold plans
}
