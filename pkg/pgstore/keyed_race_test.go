package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// A longer run: go test ./pkg/pgstore -run RacesForKeys -raceseeds 50
var raceSeeds = flag.Int("raceseeds", 1, "seeds of the tests in which sessions race for keys")

// ledger knows who holds each key, outside of the queue: from the answer that starts a job to just before its result is sent.
type ledger struct {
	mu      sync.Mutex
	limit   map[string]int
	holders map[string]map[job.ID]int // by fence
	started map[string][]job.ID       // by key
	wrong   []string
}

func (l *ledger) start(r job.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range r.Keys {
		if l.holders[k.Name()] == nil {
			l.holders[k.Name()] = make(map[job.ID]int)
		}
		l.holders[k.Name()][r.ID] = r.Fence
		l.started[k.Name()] = append(l.started[k.Name()], r.ID)
		if n := len(l.holders[k.Name()]); n > max(l.limit[k.Name()], 1) {
			l.wrong = append(l.wrong, fmt.Sprintf("%d hold %s: %v", n, k.Name(), l.holders[k.Name()]))
		}
	}
}

func (l *ledger) end(r job.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range r.Keys {
		delete(l.holders[k.Name()], r.ID)
	}
}

// racer is a session that works as a worker does, with a random pause between all steps.
type racer struct {
	*bench
	session job.ID
	random  *rand.Rand
	ledger  *ledger
	rough   bool // it also retries, releases, cancels, and lets jobs go with a wait
	pauses  time.Duration
}

func (r *racer) pause() {
	if r.pauses > 0 && r.random.IntN(3) == 0 {
		time.Sleep(time.Duration(r.random.Int64N(int64(r.pauses))))
	}
}

// round claims, admits and runs what was started, with all that is handed over for it. It returns how many jobs ended.
func (r *racer) round() (ended int, err error) {
	req := request(r.session, 1+r.random.IntN(4))
	req.Queues[0].Alone = r.random.IntN(5)
	got, err := r.store.Claim(r.ctx, req)
	if err != nil {
		return 0, err
	}
	running := got.Jobs
	for _, job := range running {
		r.ledger.start(job)
	}
	if len(got.Candidates) > 0 {
		jobs := make([]pgstore.AdmitJob, len(got.Candidates))
		for i, c := range got.Candidates {
			jobs[i].ID = c.ID
			if r.random.IntN(8) == 0 {
				jobs[i].Refused = c.Keys[0] // Redis errs on the strict side
			}
		}
		r.pause()
		a, err := r.store.Admit(r.ctx, r.session, jobs, serves(0))
		if err != nil {
			return 0, err
		}
		running = append(running, a.Jobs...)
		for _, job := range a.Jobs {
			r.ledger.start(job)
		}
		r.pause()
		more, err := r.passAll(a.Recheck)
		if err != nil {
			return 0, err
		}
		running = append(running, more...)
	}
	return r.work(running)
}

// work ends jobs and all that is handed over for them.
func (r *racer) work(running []job.Row) (ended int, err error) {
	for len(running) > 0 {
		r.pause()
		n := 1 + r.random.IntN(len(running))
		more, err := r.end(running[:n])
		if err != nil {
			return ended, err
		}
		ended += n
		running = append(more, running[n:]...)
	}
	return ended, nil
}

func (r *racer) passAll(keys []string) (running []job.Row, err error) {
	for _, key := range keys {
		for again := true; again; {
			r.pause()
			p, err := r.store.Pass(r.ctx, r.session, key, serves(int32(r.random.IntN(2))))
			if err != nil {
				return running, err
			}
			for _, job := range p.Jobs {
				r.ledger.start(job)
			}
			running, again = append(running, p.Jobs...), p.Again
		}
	}
	return running, nil
}

// end ends jobs in one of several ways and passes on what they had.
func (r *racer) end(rows []job.Row) ([]job.Row, error) {
	for _, row := range rows {
		r.ledger.end(row)
	}
	way := 0
	if r.rough {
		way = r.random.IntN(8)
	}
	var (
		freed []string
		out   pgstore.KeyedFinish
		err   error
	)
	switch way {
	case 1:
		_, freed, err = r.store.Retry(r.ctx, r.session, failuresOf(pgstore.Failure{Outcome: "failed"}, rows...))
	case 2:
		_, freed, err = r.store.Release(r.ctx, r.session, heldOf(rows...), 0, 0)
	case 3:
		_, freed, err = r.store.Release(r.ctx, r.session, heldOf(rows...), time.Millisecond, 20*time.Millisecond)
	case 4:
		var buried pgstore.Buried
		buried, err = r.store.Bury(r.ctx, r.session, failuresOf(pgstore.Failure{Outcome: "failed", Final: job.DeadDiscarded}, rows...))
		freed = buried.Freed
	case 5:
		freed, err = r.finishTx(rows)
	default:
		out, err = r.store.FinishKeyed(r.ctx, r.session, completionsOf(rows...), serves(int32(r.random.IntN(3))))
		freed = out.Freed
	}
	if err != nil {
		return nil, err
	}
	for _, job := range out.Handed {
		r.ledger.start(job)
	}
	r.pause()
	more, err := r.passAll(freed)
	return append(out.Handed, more...), err
}

func (r *racer) finishTx(rows []job.Row) (freed []string, err error) {
	for _, row := range rows {
		tx, err := r.pool.Begin(r.ctx)
		if err != nil {
			return nil, err
		}
		if err = r.store.On(tx).FinishTx(r.ctx, r.session, heldOf(row)[0], nil); err == nil {
			r.pause()
			err = tx.Commit(r.ctx)
		}
		if err != nil {
			return nil, errors.Join(err, tx.Rollback(context.WithoutCancel(r.ctx)))
		}
		for _, k := range row.Keys {
			freed = append(freed, k.Name())
		}
	}
	return freed, nil
}

// race lets four sessions work until no job is left.
func (b *bench) race(t *testing.T, seed uint64, l *ledger, rough bool, left func() string) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range 4 {
		r := &racer{bench: b, session: b.session(), random: rand.New(rand.NewPCG(seed, uint64(i))), ledger: l, rough: rough, pauses: 3 * time.Millisecond}
		wg.Go(func() {
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				n, err := r.round()
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				if n > 0 {
					continue
				}
				if left() == "0" {
					return
				}
				if rough { // the sweeper's part: what was released with a wait
					if err := r.tidy(); err != nil {
						t.Errorf("seed %d: %v", seed, err)
						return
					}
				}
				time.Sleep(2 * time.Millisecond)
			}
			t.Errorf("seed %d: jobs are left: %v", seed, b.rows("SELECT state, blocked_on, keys, ready_at > clock_timestamp(), count(*) FROM weir.live GROUP BY 1, 2, 3, 4"))
		})
	}
	wg.Wait()
	for _, wrong := range l.wrong {
		t.Errorf("seed %d: %s", seed, wrong)
	}
	if n := b.row("SELECT (SELECT count(*) FROM weir.locks) + (SELECT count(*) FROM weir.waits)"); n != "0" {
		t.Errorf("seed %d: %s lock rows and places in line are left: %v", seed, n, b.rows("SELECT to_json(k) FROM weir.locks AS k"))
	}
}

func (r *racer) tidy() error {
	got, err := r.store.Tidy(r.ctx, "", 100)
	if err != nil {
		return err
	}
	running, err := r.passAll(got.Keys)
	if err == nil {
		_, err = r.work(running)
	}
	return err
}

func newLedger(limit map[string]int) *ledger {
	return &ledger{limit: limit, holders: make(map[string]map[job.ID]int), started: make(map[string][]job.ID)}
}

// TestRacesForKeysKeepLimitAndOrder: what the sessions do is never undone, so nothing may be repaired by a sweeper.
func TestRacesForKeysKeepLimitAndOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*raceSeeds) {
		b := open(t)
		want := make(map[string][]job.ID)
		for i := range 300 {
			key := fmt.Sprintf("key %d", i%6)
			want[key] = append(want[key], b.keyed(key))
		}
		l := newLedger(nil)
		b.race(t, seed, l, false, func() string { return b.row("SELECT count(*) FROM weir.live") })
		for key, ids := range want {
			if !slices.Equal(l.started[key], ids) {
				t.Errorf("seed %d: %s was not served in order", seed, key)
			}
		}
	}
}

func TestRacesForKeysLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*raceSeeds) {
		b := open(t)
		limit := map[string]int{"many": 3, "some": 2}
		for i := range 240 {
			switch i % 6 {
			case 0:
				b.keyed("a")
			case 1:
				b.keyed("a", "b")
			case 2:
				b.keyed("b", "c")
			case 3:
				b.keyedLimits([]int32{3}, "many")
			case 4:
				b.keyedLimits([]int32{1, 3, 2}, "a", "many", "some")
			case 5:
				b.keyedLimits([]int32{2}, "some")
			}
		}
		b.race(t, seed, newLedger(limit), true, func() string { return b.row("SELECT count(*) FROM weir.live") })
	}
}
