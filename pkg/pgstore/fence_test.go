package pgstore_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

func sortedTexts(list []string) []string {
	slices.Sort(list)
	return list
}

// writes are the ways in which a claim's holder changes its job. Each reports whether the store accepted it.
var writes = []struct {
	name     string
	function string
	write    func(b *bench, session job.ID, r job.Row) (bool, error)
}{
	{"finish", "finish_v1", func(b *bench, session job.ID, r job.Row) (bool, error) {
		got, err := b.store.Finish(b.ctx, session, completionsOf(r))
		return got[r.ID], err
	}},
	{"retry", "retry_v1", func(b *bench, session job.ID, r job.Row) (bool, error) {
		got, _, err := b.store.Retry(b.ctx, session, failuresOf(pgstore.Failure{Outcome: "failed", Error: "x", Wait: time.Hour}, r))
		return !got[r.ID].IsZero(), err
	}},
	{"bury", "bury_v1", func(b *bench, session job.ID, r job.Row) (bool, error) {
		got, err := b.store.Bury(b.ctx, session, failuresOf(pgstore.Failure{Outcome: "failed", Error: "x", Final: job.DeadDiscarded}, r))
		return got.Ended[r.ID], err
	}},
	{"release", "release_v1", func(b *bench, session job.ID, r job.Row) (bool, error) {
		got, _, err := b.store.Release(b.ctx, session, heldOf(r), 0, 0)
		return !got[r.ID].IsZero(), err
	}},
	{"finish in a transaction", "", func(b *bench, session job.ID, r job.Row) (bool, error) {
		err := b.store.FinishTx(b.ctx, session, heldOf(r)[0], nil)
		if errors.Is(err, pgstore.ErrSessionLost) {
			return false, nil
		}
		return err == nil, err
	}},
}

// late makes one claim that is over in some way and returns the session and the row of which its holder still believes
// that they are his.
var late = map[string]func(b *bench) (job.ID, job.Row){
	"its job was recovered and waits": func(b *bench) (job.ID, job.Row) {
		s := b.session()
		r := b.claimed(s, 1)[0]
		b.crash(s)
		b.recover()
		return s, r
	},
	"its job runs in another session": func(b *bench) (job.ID, job.Row) {
		s := b.session()
		r := b.claimed(s, 1)[0]
		b.crash(s)
		b.recover()
		b.claim(b.session(), 1)
		return s, r
	},
	"its job runs in the same session under a new claim": func(b *bench) (job.ID, job.Row) {
		s := b.session()
		r := b.claimed(s, 1)[0]
		if _, _, err := b.store.Release(b.ctx, s, heldOf(r), 0, 0); err != nil {
			b.t.Fatalf("%v", err)
		}
		b.claim(s, 1)
		return s, r
	},
	"its job has completed": func(b *bench) (job.ID, job.Row) {
		s := b.session()
		r := b.claimed(s, 1)[0]
		if _, err := b.store.Finish(b.ctx, s, completionsOf(r)); err != nil {
			b.t.Fatalf("%v", err)
		}
		return s, r
	},
	"it names the session of another process": func(b *bench) (job.ID, job.Row) {
		r := b.claimed(b.session(), 1)[0]
		return b.session(), r
	},
	"it names a fence to come": func(b *bench) (job.ID, job.Row) {
		s := b.session()
		r := b.claimed(s, 1)[0]
		r.Fence++
		return s, r
	},
}

func (b *bench) recover() []pgstore.Recovered {
	b.t.Helper()
	got, err := b.store.Recover(b.ctx, nil, 100, 0)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return got
}

func TestAStaleWriteChangesNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, w := range writes {
		for name, claim := range late {
			session, r := claim(b)
			before := b.image(r.ID)
			ok, err := w.write(b, session, r)
			if err != nil {
				t.Fatalf("%s when %s: %v", w.name, name, err)
			}
			if ok {
				t.Errorf("%s when %s was accepted", w.name, name)
			}
			if after := b.image(r.ID); after != before {
				t.Errorf("%s when %s changed\n%s\nto\n%s", w.name, name, before, after)
			}
			b.empty()
		}
	}
}

// empty forgets all jobs.
func (b *bench) empty() {
	b.t.Helper()
	b.exec("TRUNCATE weir.live, weir.jobs, weir.jobs_kept, weir.outcomes, weir.dead, weir.attempts, weir.uniques")
	b.exec("DELETE FROM weir.locks; DELETE FROM weir.waits; DELETE FROM weir.limits; DELETE FROM weir.rate_holds; DELETE FROM weir.queues")
}

func TestTheCurrentClaimIsAccepted(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, w := range writes {
		s := b.session()
		r := b.claimed(s, 1)[0]
		if ok, err := w.write(b, s, r); !ok || err != nil {
			t.Errorf("%s: accepted %v, error %v", w.name, ok, err)
		}
		b.empty()
	}
}

func TestAStaleWriteDoesNotHoldUpItsNeighbours(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	rows := b.claimed(s, 3)
	stale := rows[1]
	stale.Fence--
	got, err := b.store.Finish(b.ctx, s, completionsOf(rows[0], stale, rows[2]))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[stale.ID] {
		t.Errorf("finished %v", got)
	}
	if st := b.state(stale.ID); st != job.Running {
		t.Errorf("the fenced-off job is %s", st)
	}
}

func TestASessionThatWasGivenAwayClaimsNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	id := b.enqueue(1)[0]
	b.crash(s)
	if _, err := b.store.Claim(b.ctx, request(s, 1)); !errors.Is(err, pgstore.ErrSessionLost) {
		t.Errorf("claim: got %v, want ErrSessionLost", err)
	}
	if _, err := b.store.Claim(b.ctx, request(b.ids.New(), 1)); !errors.Is(err, pgstore.ErrSessionLost) {
		t.Errorf("claim by a session without a row: got %v, want ErrSessionLost", err)
	}
	if st := b.state(id); st != job.Available {
		t.Errorf("the job is %s", st)
	}
	if _, err := b.store.Renew(b.ctx, s, pgstore.Renewal{Lease: time.Minute, State: "serving"}); !errors.Is(err, pgstore.ErrSessionLost) {
		t.Errorf("renew: got %v, want ErrSessionLost", err)
	}
}

func TestAnExpiredLeaseThatNobodyGaveAwayIsRenewed(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	r := b.claimed(s, 1)[0]
	b.exec("UPDATE weir.sessions SET lease_until = clock_timestamp() - interval '1 h'")
	got, err := b.store.Renew(b.ctx, s, pgstore.Renewal{Lease: time.Minute, State: "serving"})
	if err != nil || got.Running != 1 {
		t.Fatalf("renew: %d running, %v", got.Running, err)
	}
	if done, err := b.store.Finish(b.ctx, s, completionsOf(r)); !done[r.ID] || err != nil {
		t.Errorf("finish: %v, %v", done, err)
	}
}

func TestEnqueueingAnIDAgainChangesNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	var old job.IDs // of an age at which log rows may have gone to jobs_kept
	old.SetOffset(-2 * time.Minute)
	for name, prepare := range againCases {
		j := b.newJob(func(j *pgstore.NewJob) { j.ID = old.New() })
		if _, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{j}); err != nil {
			t.Fatal(err)
		}
		prepare(b, j.ID)
		j.Known = true
		before := b.image(j.ID)
		got, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{j})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got.Inserted != 0 || !got.Duplicates[j.ID] || !got.LeastReady.IsZero() {
			t.Errorf("%s: got %+v", name, got)
		}
		if after := b.image(j.ID); after != before {
			t.Errorf("%s: changed\n%s\nto\n%s", name, before, after)
		}
		b.empty()
	}
}

// againCases are what can have become of a job when its enqueue is sent again.
var againCases = map[string]func(b *bench, id job.ID){
	"while it waits":                           func(*bench, job.ID) {},
	"while it runs":                            func(b *bench, _ job.ID) { b.claim(b.session(), 1) },
	"after it completed":                       func(b *bench, _ job.ID) { b.finishOne() },
	"after it was cancelled":                   func(b *bench, id job.ID) { b.cancel(id) },
	"after its log row went to jobs_kept":      func(b *bench, id job.ID) { b.keep(id) },
	"while it runs, its log row in jobs_kept":  func(b *bench, id job.ID) { b.keep(id); b.claim(b.session(), 1) },
	"after it completed, its log row kept":     func(b *bench, id job.ID) { b.finishOne(); b.keep(id) },
	"after it was cancelled and tried again":   func(b *bench, id job.ID) { b.cancel(id); b.revive(id) },
	"after it was tried again and its log row": func(b *bench, id job.ID) { b.cancel(id); b.revive(id); b.keep(id) },
}

func (b *bench) finishOne() {
	b.t.Helper()
	s := b.session()
	for _, r := range b.claim(s, 1) {
		if got, err := b.store.Finish(b.ctx, s, completionsOf(r)); err != nil || !got[r.ID] {
			b.t.Fatalf("finish: %v, %v", got, err)
		}
	}
}

func (b *bench) cancel(ids ...job.ID) {
	b.t.Helper()
	if _, _, err := b.store.Cancel(b.ctx, ids, "test"); err != nil {
		b.t.Fatalf("%v", err)
	}
}

func (b *bench) revive(ids ...job.ID) []pgstore.Revived {
	b.t.Helper()
	got, err := b.store.Revive(b.ctx, ids)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return got
}

// keep moves a log row to where the rotation keeps those that are still wanted.
func (b *bench) keep(id job.ID) {
	b.t.Helper()
	b.exec("INSERT INTO weir.jobs_kept SELECT * FROM weir.jobs WHERE id = $1 ON CONFLICT DO NOTHING", id.UUID())
	b.exec("DELETE FROM weir.jobs WHERE id = $1", id.UUID())
}

func TestAnIDTwiceInOneBatchIsOneJob(t *testing.T) {
	t.Parallel()
	b := open(t)
	j := b.newJob()
	j.Known = true
	got, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{j, j})
	if err != nil || got.Inserted != 1 {
		t.Fatalf("enqueue: %+v, %v", got, err)
	}
	if n := len(b.claim(b.session(), 10)); n != 1 {
		t.Errorf("claimed %d", n)
	}
}

func TestABrokenPromiseOfFreshIDsStoresNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	old, fresh := b.newJob(), b.newJob()
	if _, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{old}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{old, fresh}); err == nil || !pgstore.IsData(err) {
		t.Errorf("got %v, want an error about the data", err)
	}
	if st := b.state(fresh.ID); st != "" {
		t.Errorf("its neighbour is %s", st)
	}
}

func TestAJobThatWasCancelledIsNotStartedAgainAfterARelease(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	rows := b.claimed(s, 3)
	b.cancel(rows[1].ID)
	due, _, err := b.store.Release(b.ctx, s, heldOf(rows...), 0, 0)
	if err != nil || len(due) != 3 || due[rows[1].ID].IsZero() {
		t.Fatalf("release: got %v, %v", due, err)
	}
	if st := b.state(rows[1].ID); st != job.Cancelled {
		t.Errorf("the cancelled job is %s", st)
	}
	if again := b.claim(s, 3); len(again) != 2 {
		t.Errorf("claimed %d, want the two others", len(again))
	}
}
