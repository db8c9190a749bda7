//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
)

// fault is something that goes wrong again and again while jobs come. begin returns when no more come, with all well again.
type fault struct {
	name    string
	begin   func(t *trial)
	prepare func(t *trial) // before jobs come; nil: nothing
}

var (
	kills = fault{name: "processes are killed", begin: func(t *trial) {
		rng := t.dice("kills")
		for t.wait(between(rng, 300*time.Millisecond, 3*time.Second)) {
			if p := t.some(rng); p != nil {
				t.signals(p, syscall.SIGKILL)
			}
		}
	}}
	freezes = fault{name: "processes stand still for longer than their lease", begin: func(t *trial) {
		rng := t.dice("freezes")
		for t.wait(between(rng, 200*time.Millisecond, time.Second)) {
			p := t.some(rng)
			if p == nil {
				continue
			}
			t.signals(p, syscall.SIGSTOP)
			pause(trialLease + between(rng, 500*time.Millisecond, 3*time.Second))
			t.signals(p, syscall.SIGCONT)
		}
	}}
	deploys = fault{name: "processes are told to end", begin: func(t *trial) {
		rng := t.dice("deploys")
		for t.wait(between(rng, 300*time.Millisecond, 2*time.Second)) {
			if p := t.some(rng); p != nil {
				t.signals(p, syscall.SIGTERM)
			}
		}
	}}
	flushes = fault{name: "FLUSHALL every second", begin: func(t *trial) {
		for t.wait(time.Second) {
			_ = t.rdb.FlushAll(context.Background()).Err()
		}
	}}
	emptied = fault{name: "Redis restarted empty", begin: func(t *trial) {
		rng := t.dice("emptied")
		for t.wait(between(rng, 500*time.Millisecond, 2*time.Second)) {
			if err := t.forget(); err != nil {
				t.t.Errorf("restart Redis: %v", err)
			}
		}
	}}
	setBack = fault{name: "Redis set back to an older state", begin: func(t *trial) {
		rng := t.dice("set back")
		for t.wait(between(rng, 100*time.Millisecond, time.Second)) {
			if err := t.dump(); err != nil {
				t.t.Errorf("dump Redis: %v", err)
			}
			t.wait(between(rng, 500*time.Millisecond, 2*time.Second))
			if err := t.recall(); err != nil {
				t.t.Errorf("set Redis back: %v", err)
			}
		}
	}}
	unreachable = fault{name: "Redis unreachable from one worker", begin: func(t *trial) {
		rng := t.dice("unreachable")
		for t.wait(between(rng, 200*time.Millisecond, time.Second)) {
			switch rng.IntN(3) {
			case 0:
				t.link.Shut()
			case 1:
				t.link.Silence(true)
			case 2: // what is asked for is done, and the answer comes when nobody waits for it any more
				t.link.Delay(between(rng, 100*time.Millisecond, 600*time.Millisecond))
			}
			t.wait(between(rng, 200*time.Millisecond, 2*time.Second))
			t.link.Open()
			t.link.Silence(false)
			t.link.Delay(0)
		}
	}, prepare: func(t *trial) {
		t.link = testenv.NewProxy(t.t, fmt.Sprintf("127.0.0.1:%d", t.redis.Port()))
		url := t.link.Through(t.t, t.redisURL)
		t.hire("apart", func(s *spec) { s.Redis = url })
	}}
	changes = fault{name: "limits from 10 to 1 and back", begin: func(t *trial) {
		rng := t.dice("limits")
		for n := 1; ; n = 11 - n {
			if !t.wait(between(rng, time.Second, 2500*time.Millisecond)) {
				return
			}
			t.setLimit(n)
		}
	}, prepare: func(t *trial) {
		for key := range t.locks {
			t.locks[key] = 10
		}
		t.jobs = leisurely // or ten would never run at once
	}}
	frozenSweeper = fault{name: "sweepers stand still in turn", begin: func(t *trial) {
		rng := t.dice("sweepers")
		for i := 0; t.wait(between(rng, 200*time.Millisecond, time.Second)); i++ {
			p := t.sweepers[i%len(t.sweepers)]
			t.signals(p, syscall.SIGSTOP)
			pause(between(rng, 100*time.Millisecond, trialLease+time.Second))
			t.signals(p, syscall.SIGCONT)
		}
	}}
)

// setLimit changes the limit of all keys, by an entry for their prefix.
func (t *trial) setLimit(n int) {
	asked := time.Now()
	if err := t.client.SetLimit(context.Background(), client.Limit{Key: "key:", Prefix: true, N: n}, false); err != nil {
		t.t.Errorf("set the limit: %v", err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	set := limitSet{at: asked, n: n}
	if n == 1 {
		// A claim may have read the former limit and not have committed yet.
		const underWay = time.Second
		set.at = time.Now().Add(underWay)
	}
	t.limits = append(t.limits, set)
}

// P4, for B31, B32, B37 and B44: whatever happens to processes and to Redis, no key has more holders at once than its limit,
// nothing is lost, and at rest nothing is left. Short: a seed for several faults at once, 5 s of jobs; with -long each fault
// alone and all together, 20 seeds each, 40 s.
func TestNoKeyHasMoreHoldersThanItsLimit(t *testing.T) {
	t.Parallel()
	short := map[string][]fault{
		"processes die and stand still": {kills, freezes},
		"processes end, sweepers stand": {deploys, frozenSweeper},
		"Redis forgets":                 {flushes, emptied},
		"Redis remembers":               {setBack, unreachable},
		"limits change":                 {changes, flushes},
	}
	all := []fault{kills, freezes, deploys, flushes, emptied, setBack, unreachable, frozenSweeper, changes}
	long := map[string][]fault{"all at once": {kills, freezes, deploys, flushes, setBack, unreachable, frozenSweeper}}
	for _, f := range all {
		long[f.name] = []fault{f}
	}
	for name, faults := range pick(short, long) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range seeds(pick(1, 20)) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					tr := newTrial(t, seed, ownPostgres())
					tr.staff()
					tr.run(faults...)
				})
			}
		})
	}
}

// The same trial without a fault and without keys, though the book is told of some: it must see that they are not kept.
func TestTheBookSeesThatNobodyKeepsTheKeys(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, seeds(1)[0])
	tr.span = time.Second
	tr.jobs = keyless
	tr.staff()
	tr.load()
	tr.awaitEmpty(20 * time.Second)
	runs := tr.runs(nil)
	if faults := overlaps(runs, tr.limitAt); len(faults) == 0 {
		t.Errorf("the book has seen nothing in %d runs", len(runs))
	}
}
