//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

// steps are the points at which half a claim of a key could be left.
var steps = []step{
	{Verb: "claim_v1", After: true}, // candidates seen, Redis not asked
	{Verb: "admit_v1"},              // Redis has granted, Postgres knows nothing
	{Verb: "admit_v1", After: true}, // admitted or blocked, nobody knows; what was freed is not passed on
	{Verb: "finish_keyed_v1"},       // the handler has returned
	{Verb: "finish_keyed_v1", After: true},
	{Verb: "pass_v1"}, // freed, not passed on
	{Verb: "pass_v1", After: true},
}

// B35: a process dies between any two of the statements about keys. Whatever the point, the job runs again, no key has more
// holders than its limit, and none stays taken. Short: a death at each point instead of 50.
func TestADeathBetweenTwoStatementsLeavesNoHalfAClaim(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, seeds(1)[0], ownPostgres())
	tr.locks = map[string]int{"key:0": 2, "key:1": 2, "key:2": 2, "key:3": 2}
	tr.span = pick(time.Minute, 20*time.Minute) // at most: it ends with the last death
	tr.staff()
	deaths := pick(1, 50)
	for i, at := range steps {
		rng := tr.dice(fmt.Sprint("step", i))
		var lives atomic.Int32
		tr.hire(fmt.Sprintf("victim%d", i), func(s *spec) {
			if int(lives.Add(1)) <= deaths {
				at.Nth = 1 + rng.Int64N(pick[int64](1, 3))
				s.DieAt = at
			}
		})
	}
	tr.run(fault{begin: func(t *trial) {
		for t.wait(50 * time.Millisecond) {
			if len(t.alive(deaths)) == 0 {
				t.enough()
			}
		}
	}})
	if left := tr.alive(deaths); len(left) > 0 {
		t.Errorf("nobody died so often as was to be at %+v", left)
	}
}

// alive returns the steps at which fewer processes than n have died.
func (t *trial) alive(n int) []step {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []step
	for i, at := range steps {
		died := 0
		for name := range t.exits {
			if strings.HasPrefix(name, fmt.Sprintf("victim%d-", i)) {
				died++
			}
		}
		if died < n {
			out = append(out, at)
		}
	}
	return out
}

// holding starts a deployment with a worker whose jobs hold all places of a key until the gate opens, and jobs that wait
// for it.
func holding(t *testing.T, limit, waiting int, args keyed) (tr *trial, holder *process, waits []job.ID, open func()) {
	t.Helper()
	tr = newTrial(t, 1)
	tr.locks = map[string]int{"key": limit}
	holder = tr.keeper("holder")
	args.Keys = []string{"key"}
	args.Gate, open = tr.gate()
	for range limit {
		tr.add(args)
	}
	tr.awaitEvents(20*time.Second, limit, started, "holder")
	for range waiting {
		waits = append(waits, tr.add(keyed{Keys: args.Keys, For: 50 * time.Millisecond}))
	}
	testenv.Eventually(t, 10*time.Second+crowd(), func() bool {
		return tr.count("SELECT count(*) FROM weir.live WHERE state = 2") == waiting
	}, "those who wait are not blocked")
	return tr, holder, waits, open
}

// keeper starts a worker that keeps the book and is not replaced.
func (t *trial) keeper(name string) *process {
	t.t.Helper()
	return t.worker(name, func(s *spec) { s.Lease, s.Book = trialLease, t.url })
}

func (t *trial) add(args keyed, options ...job.Options) job.ID {
	t.t.Helper()
	o := job.Options{Keys: t.keysOf(args.Keys)}
	for _, more := range options {
		o = o.Merge(more)
	}
	e, err := t.client.Enqueue(t.t.Context(), args, o)
	must(t.t, err)
	t.ledger.note(event{What: acked, ID: e.ID})
	return e.ID
}

// tardy is how long after a death a key may be idle: a lease, two rounds of sweepers and the start of a worker, and more when they found
// the machine too slow to judge others.
func (t *trial) tardy() time.Duration {
	d := trialLease + 2*sweepEvery + 3*time.Second
	for _, s := range t.sweepers {
		d += time.Duration(s.logged("sweeper does not trust itself")) * (trialLease + time.Second)
	}
	return d
}

// B31 and B32: who holds a key dies, also after it was told to end and did not, and others start at that very moment. No key
// has more holders than its limit, and those who held it run again, or those who wait for it, within a lease and a sweep,
// however long the job may run.
func TestAKeyWhoseHolderDiesIsFreeAfterItsLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(t *trial, holder *process, next job.ID)
		late bool // the sweepers start after the others
	}{
		"killed": {harm: func(_ *trial, p *process, _ job.ID) { p.kill() }},
		"told to end, then killed": {harm: func(_ *trial, p *process, _ job.ID) {
			p.signal(syscall.SIGTERM)
			pause(500 * time.Millisecond)
			p.kill()
		}},
		"killed, and there is no sweeper yet": {late: true, harm: func(_ *trial, p *process, _ job.ID) { p.kill() }},
		"killed, and the next is cancelled": {harm: func(t *trial, p *process, next job.ID) {
			p.kill()
			must(t.t, t.client.Cancel(context.Background(), next))
		}},
		"killed, and the next is deleted": {harm: func(t *trial, p *process, next job.ID) {
			p.kill()
			must(t.t, t.client.Delete(context.Background(), next))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 2
			tr, holder, waits, open := holding(t, limit, 5, keyed{Do: doDeaf})
			if !c.late {
				tr.guard()
			}
			c.harm(tr, holder, waits[0])
			killed := time.Now()
			for i := range 3 {
				tr.start(spec{Role: "worker", Name: fmt.Sprint("other", i), Lease: trialLease, Book: tr.url})
			}
			if c.late {
				pause(trialLease)
				tr.guard()
				killed = time.Now()
			}
			again := tr.awaitEvents(6*trialLease, limit, started, "other")
			if took, most := again[limit-1].At.Sub(killed), tr.tardy(); took > most {
				t.Errorf("the key was taken again after %v, at most %v", took, most)
			}
			open()
			tr.awaitEmpty(20 * time.Second)
			tr.atRest()
			tr.checkHolders(tr.runs(nil), tr.limitAt)
		})
	}
}

// B34: Redis is of no use in one way or another while keys are given back. Nothing is leaked: as many run at once as before.
func TestAKeyIsGivenBackWhateverRedisSays(t *testing.T) {
	t.Parallel()
	for name, begin := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, 1)
			tr.locks = map[string]int{"key": 3}
			tr.keeper("one")
			tr.keeper("two")
			gate, open := tr.gate()
			for range 3 {
				tr.add(keyed{Keys: []string{"key"}, Gate: gate})
			}
			tr.awaitEvents(20*time.Second, 3, started)
			heal := begin(tr.rig, tr.rdb)
			open()
			tr.awaitEvents(20*time.Second, 3, ended)
			heal()
			gate, open = tr.gate()
			for range 10 {
				tr.add(keyed{Keys: []string{"key"}, Gate: gate})
			}
			tr.awaitEvents(10*time.Second, 6, started) // all places are there again
			open()
			tr.awaitEmpty(20 * time.Second)
			tr.atRest()
			tr.checkHolders(tr.runs(nil), tr.limitAt)
			tr.check(audit{})
		})
	}
}

// B40: one job has the only place of a key, and thousands wait for it at the head of the queue. Others start at once, and
// a hundred times as many waiting jobs do not make a claim slow. Short: 2,000 jobs instead of 10,000.
//
// It runs by itself, since it measures.
func TestASaturatedKeyAtTheHeadBlocksNobodyElse(t *testing.T) {
	tr := newTrial(t, 1)
	tr.locks = map[string]int{"key": 1, "other": 1}
	tr.guard()
	tr.keeper("worker")
	gate, open := tr.gate()
	tr.add(keyed{Keys: []string{"key"}, Gate: gate})
	tr.awaitEvents(10*time.Second, 1, started)
	n := pick(2000, 10_000)
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i] = job.Spec{Args: keyed{Keys: []string{"key"}}, Options: job.Options{Keys: tr.keysOf([]string{"key"})}}
	}
	many, err := tr.client.EnqueueMany(t.Context(), specs)
	must(t, err)
	sent := map[job.ID]time.Time{}
	for i := range 10 {
		keys := [][]string{nil, {"other"}}[i%2]
		began := time.Now()
		sent[tr.add(keyed{Keys: keys})] = began
	}
	waits := late(sent, tr.starts(ids(sent), 1))
	t.Logf("%d jobs wait; others started after %v at most", n, quantile(waits, 1))
	if worst := quantile(waits, 1); worst > 2*time.Second+crowd()/4 {
		t.Errorf("others started after %v, at most 2 s", worst)
	}
	testenv.Eventually(t, 20*time.Second+crowd(), func() bool { return tr.count("SELECT count(*) FROM weir.live WHERE state = 2") == n },
		"those who wait are not blocked")
	waiting := make([]job.ID, 0, n)
	for _, e := range many {
		waiting = append(waiting, e.ID)
	}
	must(t, tr.client.Cancel(t.Context(), waiting...)) // ten thousand one after the other are another test
	open()
	tr.awaitEmpty(20 * time.Second)
	tr.atRest()
}
