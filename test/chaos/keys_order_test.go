//go:build unix

package chaos_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// P7: of the jobs of a key with limit 1, each enqueued when the one before had been acknowledged, none starts before one
// that was enqueued earlier, though four workers take them and two of these stand still for a while between their
// statements: after a claim and before the question to Redis, and before and after the admission. Every third job completes
// in a transaction of its own, which hands nothing over: its key is free until it is passed on. Short: 1,000 jobs on 20 keys,
// and 40 keys of 5 jobs, instead of 10,000 on 50, and 1,000 of 5.
//
// Redis refuses much that is out of order before Postgres is asked; so the same runs without it, by polls.
func TestJobsOfAKeyStartInTheOrderOfTheirEnqueue(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]func(*rig){"with Redis": privateRedis(), "without Redis": withoutRedis()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, ownPostgres(), redis)
			r.bookOf()
			r.sweeper("sweeper")
			for i := range 4 {
				r.worker(fmt.Sprint("worker", i), slots(10), func(s *spec) {
					s.Book = r.url
					if r.noRedis {
						s.Poll = 50 * time.Millisecond
					}
					if i%2 == 1 {
						s.Pauses = 30 * time.Millisecond
					}
				})
			}
			jobs := r.enqueueInLine("many", pick(20, 50), pick(50, 200))
			r.awaitEmpty(pick(time.Minute, 10*time.Minute))
			r.checkOrder(jobs)
			rounds := r.enqueueInLine("round", pick(40, 1000), 5)
			r.awaitEmpty(pick(time.Minute, 10*time.Minute))
			r.checkOrder(rounds)
			r.check(audit{})
			r.checkHolders(r.runs(nil), func(string, time.Time) int { return 1 })
			r.checkDeadlocks()
		})
	}
}

// enqueueInLine enqueues jobs on several keys, those of a key one after the other. It returns their ids by key, in order.
func (r *rig) enqueueInLine(name string, keys, each int) map[string][]job.ID {
	r.t.Helper()
	const atOnce = 50
	out := make(map[string][]job.ID, keys)
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		turn = make(chan struct{}, atOnce)
	)
	for i := range keys {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			key := fmt.Sprint(name, ":", i)
			for n := range each {
				args := keyed{Keys: []string{key}}
				if n%3 == 1 {
					args.Do = doFinishTx
				}
				e, err := r.client.Enqueue(r.t.Context(), args, job.Options{Keys: []job.Key{job.Mutex(key)}})
				if err != nil {
					r.t.Errorf("enqueue: %v", err)
					return
				}
				r.ledger.note(event{What: acked, ID: e.ID})
				mu.Lock()
				out[key] = append(out[key], e.ID)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out
}

// checkOrder compares the order of starts with that of the enqueues, and that one had ended when the next started.
func (r *rig) checkOrder(jobs map[string][]job.ID) {
	r.t.Helper()
	ledgers := readLedgers(r.t, r.dir)
	begun, over := ledgers.of(started).byID(), ledgers.of(ended).byID()
	n := 0
	for key, want := range jobs {
		got := slices.Clone(want)
		slices.SortStableFunc(got, func(a, b job.ID) int { return begun[a].last().Compare(begun[b].last()) })
		for i := range want {
			if got[i] != want[i] {
				n++
				r.t.Errorf("P7: key %s: start %d is of the job enqueued as number %d: %+v before %+v", key, i, slices.Index(want, got[i]),
					begun[got[i]], begun[want[i]])
				break
			}
			if i > 0 && begun[want[i]].last().Before(over[want[i-1]].last()) {
				n++
				r.t.Errorf("P4: key %s: job %d started before job %d had ended", key, i, i-1)
				break
			}
		}
		if n > 10 {
			r.t.Fatal("and more")
		}
	}
}
