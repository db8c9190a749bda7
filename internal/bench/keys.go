package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func keyCases() []Case {
	return []Case{
		{Name: "keys_distinct", About: "50,000 no-op jobs, each with a mutex of its own, against as many without keys, 100 slots", Quick: true, Run: on("distinct", distinctKeys)},
		{Name: "keys_hot", About: "no-op jobs that all have one mutex, one after the other", Quick: true, Run: on("hot", hotKey)},
		{Name: "keys_many", About: "1,000 mutexes with 50 jobs of 0.5 to 1.5 s each, 1,500 slots: how long a key is idle between two; and 5 of 1 s, in step", Run: on("many", manyKeys)},
		{Name: "keys_blocked", About: "no-op jobs without keys while 100,000 wait for one mutex, against none", Run: blockedKey},
	}
}

// scaled is a size of these cases: 1 is what the project promises.
func (s *stage) scaled(n int) int { return max(int(float64(n)*s.env.Scale), 1) }

// fillKeyed enqueues n no-op jobs with the keys that a function gives each.
func (s *stage) fillKeyed(ctx context.Context, n int, keys func(i int) []job.Key) error {
	for sent := 0; sent < n; sent += 5000 {
		specs := make([]job.Spec, min(5000, n-sent))
		for i := range specs {
			specs[i] = job.Spec{Args: noop{N: sent + i}, Options: job.Options{Keys: keys(sent + i)}}
		}
		if _, err := s.client.EnqueueMany(ctx, specs); err != nil {
			return err
		}
	}
	return nil
}

// drainRate returns the jobs a second that a worker finishes of those that wait, from its start to the last result.
func (s *stage) drainRate(ctx context.Context, jobs, slots int) (float64, error) {
	w, stop, err := s.worker(slots, nil)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	for w.Stats().Completed < int64(jobs) {
		if time.Since(begun) > time.Minute || ctx.Err() != nil {
			_ = stop()
			return 0, fmt.Errorf("%d of %d jobs done after %v", w.Stats().Completed, jobs, time.Since(begun))
		}
		time.Sleep(2 * time.Millisecond)
	}
	rate := float64(jobs) / time.Since(begun).Seconds()
	return rate, stop()
}

// distinctKeys compares in one run: rounds with and without keys take turns.
func distinctKeys(ctx context.Context, s *stage) ([]Figure, error) {
	const slots = 100
	jobs := s.scaled(50_000)
	var with, without []float64
	for round := range 3 {
		if err := s.fill(ctx, jobs); err != nil {
			return nil, err
		}
		v, err := s.drainRate(ctx, jobs, slots)
		if err != nil {
			return nil, err
		}
		without = append(without, v)
		err = s.fillKeyed(ctx, jobs, func(i int) []job.Key { return []job.Key{job.Mutex(fmt.Sprintf("key:%d:%d", round, i))} })
		if err != nil {
			return nil, err
		}
		if v, err = s.drainRate(ctx, jobs, slots); err != nil {
			return nil, err
		}
		with = append(with, v)
	}
	keyed, plain := quantile(with, 0.5), quantile(without, 0.5)
	return []Figure{
		{Case: "keys_distinct", Name: "rate", Value: keyed, Unit: "jobs/s"},
		{Case: "keys_distinct", Name: "rate_without", Value: plain, Unit: "jobs/s"},
		{Case: "keys_distinct", Name: "of_keyless", Value: keyed / plain, Unit: "ratio", Want: ">= 0.5"},
	}, nil
}

func hotKey(ctx context.Context, s *stage) ([]Figure, error) {
	jobs := s.scaled(6000)
	v, err := rounds(3, func() (float64, error) {
		if err := s.fillKeyed(ctx, jobs, func(int) []job.Key { return []job.Key{job.Mutex("hot")} }); err != nil {
			return 0, err
		}
		return s.drainRate(ctx, jobs, 100)
	})
	if err != nil {
		return nil, err
	}
	bare, err := rounds(3, func() (float64, error) { return s.bareInserts(ctx) })
	return []Figure{
		{Case: "keys_hot", Name: "rate", Value: v, Unit: "jobs/s", Want: ">= 1500"},
		{Case: "keys_hot", Name: "of_bare_insert", Value: v / bare, Unit: "ratio", Note: "one-row inserts that one connection commits one after the other: " + fmt.Sprintf("%.0f/s", bare)},
	}, err
}

// idleness measures how long keys are idle while jobs wait for them: from the end of one handler to the start of the next.
type idleness struct {
	mu    sync.Mutex
	ended map[int]time.Time
	gaps  []float64
}

func (d *idleness) handle(keys int, took func() time.Duration) func(*worker.Job[noop]) error {
	return func(j *worker.Job[noop]) error {
		key, now := j.Args.N%keys, time.Now()
		d.mu.Lock()
		if at, ok := d.ended[key]; ok {
			d.gaps = append(d.gaps, ms(now.Sub(at)))
		}
		d.mu.Unlock()
		time.Sleep(took())
		d.mu.Lock()
		d.ended[key] = time.Now()
		d.mu.Unlock()
		return nil
	}
}

// manyKeys measures jobs whose lengths differ, as jobs' do; and then such as all end at once, each second, which measures how
// long it takes to hand a thousand locks over.
func manyKeys(ctx context.Context, s *stage) ([]Figure, error) {
	apart, rate, err := s.idleKeys(ctx, s.scaled(50), func() time.Duration { return 500*time.Millisecond + rand.N(time.Second) })
	if err != nil {
		return nil, err
	}
	inStep, _, err := s.idleKeys(ctx, 5, func() time.Duration { return time.Second })
	return []Figure{
		{Case: "keys_many", Name: "idle_p50", Value: quantile(apart, 0.5), Unit: "ms"},
		{Case: "keys_many", Name: "idle_p99", Value: quantile(apart, 0.99), Unit: "ms", Want: "<= 20"},
		{Case: "keys_many", Name: "rate", Value: rate, Unit: "jobs/s"},
		{Case: "keys_many", Name: "in_step_p99", Value: quantile(inStep, 0.99), Unit: "ms"},
	}, err
}

// idleKeys lets each of 1,000 keys have so many jobs, and returns how long keys were idle and the jobs a second.
func (s *stage) idleKeys(ctx context.Context, each int, took func() time.Duration) (gaps []float64, rate float64, err error) {
	const keys, slots = 1000, 1500
	if err := s.fillKeyed(ctx, keys*each, func(i int) []job.Key { return []job.Key{job.Mutex(fmt.Sprint("key:", i%keys))} }); err != nil {
		return nil, 0, err
	}
	d := &idleness{ended: make(map[int]time.Time)}
	w, stop, err := s.worker(slots, d.handle(keys, took))
	if err != nil {
		return nil, 0, err
	}
	begun := time.Now()
	for w.Stats().Completed < int64(keys*each) {
		if time.Since(begun) > 2*time.Minute || ctx.Err() != nil {
			return nil, 0, errors.Join(stop(), fmt.Errorf("%d of %d jobs done", w.Stats().Completed, keys*each))
		}
		time.Sleep(10 * time.Millisecond)
	}
	rate = float64(keys*each) / time.Since(begun).Seconds()
	err = stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gaps, rate, err
}

// blockedKey compares two schemas in turns: one has 100,000 jobs that wait for a key which is held all the time.
func blockedKey(ctx context.Context, e *Env) ([]Figure, error) {
	const slots = 100
	free, err := e.open(ctx, "free")
	if err != nil {
		return nil, err
	}
	defer free.close()
	waiting, jobs := free.scaled(100_000), free.scaled(100_000)
	full, err := e.open(ctx, "full")
	if err != nil {
		return nil, err
	}
	defer full.close()
	release, err := full.hold(ctx, waiting)
	if err != nil {
		return nil, err
	}
	var with, without []float64
	for range 5 {
		for _, c := range []struct {
			s   *stage
			out *[]float64
		}{{free, &without}, {full, &with}} {
			if err := c.s.fill(ctx, jobs); err != nil {
				return nil, err
			}
			v, err := c.s.drainRate(ctx, jobs, slots)
			if err != nil {
				return nil, err
			}
			*c.out = append(*c.out, v)
		}
	}
	a, b := quantile(with, 0.5), quantile(without, 0.5)
	return []Figure{
		{Case: "keys_blocked", Name: "rate", Value: a, Unit: "jobs/s"},
		{Case: "keys_blocked", Name: "rate_without", Value: b, Unit: "jobs/s"},
		{Case: "keys_blocked", Name: "of_unblocked", Value: a / b, Unit: "ratio", Want: ">= 0.95"},
	}, release()
}

// holding is a job that holds a key.
type holding struct{}

func (holding) Kind() string { return "holding" }

// hold lets one job hold a key, and n no-op jobs wait for it, until release is called. Its worker serves a queue of its own, so
// that it does not take part in what is measured.
func (s *stage) hold(ctx context.Context, n int) (release func() error, err error) {
	w, err := worker.New(s.client, worker.Config{
		Queues: []worker.Queue{{Name: "holding", Slots: 1}}, Grace: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	held := make(chan struct{})
	worker.Handle(w, func(ctx context.Context, _ *worker.Job[holding]) error {
		close(held)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(run) }()
	release = func() error { cancel(); return <-ended }
	key := []job.Key{job.Mutex("busy")}
	if _, err := s.client.Enqueue(ctx, holding{}, job.Options{Queue: "holding", Keys: key}); err != nil {
		return release, err
	}
	<-held
	if err := s.fillKeyed(ctx, n, func(int) []job.Key { return key }); err != nil {
		return release, err
	}
	_, stop, err := s.worker(100, nil) // finds them blocked
	if err != nil {
		return release, err
	}
	for blocked := 0; blocked < n && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if err := s.pool.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM %q.live WHERE state = 2`, s.namespace)).Scan(&blocked); err != nil {
			return release, err
		}
	}
	return release, stop()
}
