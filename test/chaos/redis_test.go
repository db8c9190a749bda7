//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/testenv"
)

// trouble is a way for Redis to be of no use. begin returns what ends it.
type trouble func(r *rig, rdb redis.UniversalClient) (heal func())

var troubles = map[string]trouble{
	"killed": func(r *rig, _ redis.UniversalClient) func() {
		must(r.t, r.redis.Kill())
		return func() { must(r.t, r.redis.Restart(context.Background())) }
	},
	"restarted empty": func(r *rig, _ redis.UniversalClient) func() {
		must(r.t, r.redis.Restart(context.Background()))
		return func() {}
	},
	"flushed every 200 ms": func(r *rig, rdb redis.UniversalClient) func() {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = rdb.FlushAll(ctx).Err()
				pause(200 * time.Millisecond)
			}
		})
		end := sync.OnceFunc(func() { cancel(); wg.Wait() })
		r.t.Cleanup(end)
		return end
	},
	"frozen": func(r *rig, _ redis.UniversalClient) func() {
		must(r.t, r.redis.Pause())
		return func() { must(r.t, r.redis.Resume()) }
	},
	"read-only": func(r *rig, rdb redis.UniversalClient) func() {
		must(r.t, rdb.SlaveOf(r.t.Context(), "127.0.0.1", "1").Err())
		return func() { must(r.t, rdb.SlaveOf(context.Background(), "no", "one").Err()) }
	},
	"out of memory": func(r *rig, rdb redis.UniversalClient) func() {
		must(r.t, rdb.ConfigSet(r.t.Context(), "maxmemory-policy", "noeviction").Err())
		must(r.t, rdb.ConfigSet(r.t.Context(), "maxmemory", "1").Err())
		return func() { must(r.t, rdb.ConfigSet(context.Background(), "maxmemory", "0").Err()) }
	},
}

// pollAlone is how often a worker looks that has no sweeper to rely on.
const pollAlone = 5 * time.Second

// P5, with B76, B82 and B83: whatever Redis does, jobs run, an enqueue takes no longer, and hints come back by
// themselves. There is no sweeper: what is prompt is prompt by hints alone. Short: 4 s of trouble instead of 60 s.
func TestWorkGoesOnWithoutRedisAndHintsComeBack(t *testing.T) {
	t.Parallel()
	for name, begin := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, privateRedis())
			rdb := testenv.Client(t, r.redisURL)
			one, two := r.worker("one", slots(50)), r.worker("two", slots(50))
			base := r.timed(300)
			heal := begin(r, rdb)
			began := time.Now()
			during := r.timed(500)
			pause(time.Until(began.Add(pick(4*time.Second, 60*time.Second))))
			r.awaitEmpty(pollAlone + time.Second + 2*time.Second)
			if p, most := quantile(during, 0.99), 2*quantile(base, 0.99)+25*time.Millisecond; p > most {
				t.Errorf("the p99 of an enqueue is %v without Redis, at most %v (with it: %v)", p, most, quantile(base, 0.99))
			}
			heal()
			r.awaitHints(time.Now())
			r.awaitEmpty(10 * time.Second)
			for _, w := range []*process{one, two} {
				if !w.isRunning() {
					t.Errorf("%s has ended", w.name)
				}
				w.stop()
			}
			r.check(audit{})
		})
	}
}

// timed enqueues n jobs over two seconds or so, one by one, and returns how long each took.
func (r *rig) timed(n int) []time.Duration {
	r.t.Helper()
	var out []time.Duration
	for range n {
		began := time.Now()
		r.enqueue(work{})
		out = append(out, time.Since(began))
		pause(4 * time.Millisecond)
	}
	return out
}

// awaitHints waits until jobs start at once again: five in a row within 150 ms, as a poll can be but for one of them.
func (r *rig) awaitHints(healed time.Time) {
	r.t.Helper()
	const prompt, enough = 150 * time.Millisecond, 5
	inRow := 0
	for inRow < enough {
		id := r.enqueue(work{})
		sent := time.Now()
		testenv.Eventually(r.t, pollAlone+5*time.Second+crowd(), func() bool {
			return len(readLedgers(r.t, r.dir).of(started).byID()[id]) > 0
		}, "a job does not start after Redis is well again")
		if took := readLedgers(r.t, r.dir).of(started).byID()[id].last().Sub(sent); took < prompt {
			inRow++
		} else {
			inRow = 0
		}
	}
	// The last poll before the hints came back may be what took the longest.
	if took := time.Since(healed); took > 5*time.Second+time.Second+crowd()/4 {
		r.t.Errorf("hints came back %v after Redis was well again, at most 5 s", took)
	} else {
		r.t.Logf("hints were back %v after Redis was well again", took)
	}
}

// B76: what was asked for while the subscriber was away is state in Postgres, and is obeyed: within a renewal.
func TestACancelDuringALossOfRedisIsObeyed(t *testing.T) {
	t.Parallel()
	r := newRig(t, privateRedis())
	r.worker("worker")
	id := r.enqueue(work{For: time.Minute})
	r.awaitEvents(10*time.Second, 1, started)
	must(t, r.redis.Kill())
	must(t, r.client.Cancel(t.Context(), id))
	asked := time.Now()
	ends := r.awaitEvents(lease()/5+2*time.Second, 1, ended)
	t.Logf("stopped after %v: %s", ends.last().Sub(asked), ends[0].Err)
	r.awaitEmpty(5 * time.Second)
	r.check(audit{dead: 1})
}

// P5: connections to Redis that stay open, and new ones that are accepted, while nothing comes through either way, and
// nothing that was sent is ever delivered. Enqueues wait no longer than for one answer that does not come, jobs start within
// the poll, and hints come back. There is no sweeper. Short: 5 s instead of 60 s.
func TestHalfOpenConnectionsToRedisHoldNobodyUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, privateRedis())
	link := testenv.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", r.redis.Port()))
	r.redisURL = link.Through(t, r.redisURL)
	r.client = r.clientOn(r.pool)
	one, two := r.worker("one", slots(50)), r.worker("two", slots(50))
	r.timed(100)
	r.awaitEmpty(pollAlone + time.Second + crowd())
	link.Silence(true)
	began := time.Now()
	during := r.timed(500)
	pause(time.Until(began.Add(pick(5*time.Second, time.Minute))))
	r.awaitEmpty(pollAlone + time.Second + crowd())
	link.Silence(false)
	r.awaitHints(time.Now())
	r.awaitEmpty(10 * time.Second)
	const answer = 100 * time.Millisecond // how long one may take, by default
	t.Logf("an enqueue took %v at the median, %v at the most", quantile(during, 0.5), quantile(during, 1))
	if p99, most := quantile(during, 0.99), answer+25*time.Millisecond+crowd()/20; p99 > most {
		t.Errorf("the p99 of an enqueue is %v, at most %v", p99, most)
	}
	if worst, most := quantile(during, 1), 3*answer+crowd()/4; worst > most {
		t.Errorf("an enqueue took %v, at most %v", worst, most)
	}
	r.stillRun(one, two)
	r.check(audit{})
}
