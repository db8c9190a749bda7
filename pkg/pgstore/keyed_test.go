package pgstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// keyed enqueues a job of kind "k" in queue "q" with locks, names that are sorted, each with a limit of one.
func (b *bench) keyed(names ...string) job.ID { return b.keyedLimits(nil, names...) }

// keyedLimits is keyed with the job's own numbers.
func (b *bench) keyedLimits(limits []int32, names ...string) job.ID {
	b.t.Helper()
	id := b.enqueue(1)[0]
	b.giveKeys(id, limits, names...)
	return id
}

func (b *bench) giveKeys(id job.ID, limits []int32, names ...string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.ctx, b.text(`UPDATE weir.live SET keys = $2, key_limits = $3, flags = flags | 1, line_at = ready_at WHERE id = $1`),
		id.UUID(), names, limits)
	b.must(err)
}

// serves is what a process of these tests serves, with take slots kept.
func serves(take int32) pgstore.Serves {
	return pgstore.Serves{Queues: []string{"q"}, Kinds: []string{"k"}, Take: []int32{take}, Reserve: time.Minute}
}

func (b *bench) admit(session job.ID, ids ...job.ID) pgstore.Admission {
	b.t.Helper()
	jobs := make([]pgstore.AdmitJob, len(ids))
	for i, id := range ids {
		jobs[i].ID = id
	}
	got, err := b.store.Admit(b.ctx, session, jobs, serves(0))
	b.must(err)
	return got
}

// admitted admits one job, which must run then.
func (b *bench) admitted(session, id job.ID) job.Row {
	b.t.Helper()
	got := b.admit(session, id)
	if len(got.Jobs) != 1 || got.Jobs[0].ID != id {
		b.t.Fatalf("admit: %+v", got)
	}
	return got.Jobs[0]
}

func (b *bench) finishKeyed(session job.ID, take int32, rows ...job.Row) pgstore.KeyedFinish {
	b.t.Helper()
	got, err := b.store.FinishKeyed(b.ctx, session, completionsOf(rows...), serves(take))
	b.must(err)
	return got
}

func (b *bench) pass(session job.ID, key string, take int32) pgstore.Passed {
	b.t.Helper()
	got, err := b.store.Pass(b.ctx, session, key, serves(take))
	b.must(err)
	return got
}

// locks returns who has lock rows of a key, by slot.
func (b *bench) locks(key string) []string {
	b.t.Helper()
	return b.rows("SELECT job_id FROM weir.locks WHERE key = $1 ORDER BY slot", key)
}

func TestOneHolderAtATimeInTheOrderOfTheLine(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	first, second, third := b.keyed("a"), b.keyed("a"), b.keyed("a")
	got := b.admit(s, first, second, third)
	if len(got.Jobs) != 1 || got.Jobs[0].ID != first || got.Jobs[0].Fence != 1 || len(got.Blocked) != 2 {
		t.Fatalf("%+v", got)
	}
	if !slices.Equal(got.Holders["a"], []job.ID{first}) || !slices.Equal(got.Recheck, []string{"a"}) {
		t.Fatalf("%+v", got)
	}
	if got.Jobs[0].Keys[0] != job.Mutex("a") || len(got.Jobs[0].Payload) == 0 {
		t.Fatalf("%+v", got.Jobs[0])
	}
	done := b.finishKeyed(s, 1, got.Jobs...)
	if !done.Accepted[first] || len(done.Handed) != 1 || done.Handed[0].ID != second || len(done.Freed) != 0 {
		t.Fatalf("%+v", done)
	}
	if !slices.Equal(done.Moves, []pgstore.Move{{Key: "a", Out: first, In: second}}) {
		t.Fatalf("%+v", done.Moves)
	}
	last := b.finishKeyed(s, 0, done.Handed...)
	if len(last.Handed) != 0 || len(last.Reserved) != 1 || last.Reserved[0].ID != third {
		t.Fatalf("%+v", last)
	}
	r := b.admitted(s, third)
	end := b.finishKeyed(s, 1, r)
	if !slices.Equal(end.Freed, []string{"a"}) || len(b.locks("a")) != 0 {
		t.Fatalf("%+v, rows %v", end, b.locks("a"))
	}
}

func TestAJobOfSeveralLocksStandsInAllTheirLines(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	holder := b.admitted(s, b.keyed("b"))
	both, later := b.keyed("a", "b"), b.keyed("a")
	got := b.admit(s, both, later)
	if len(got.Jobs) != 0 || len(got.Blocked) != 2 {
		t.Fatalf("%+v", got)
	}
	if p := b.pass(s, "a", 5); len(p.Jobs) != 0 || p.Again {
		t.Fatalf("a was given away although the first in its line waits for b: %+v", p)
	}
	done := b.finishKeyed(s, 5, holder)
	if len(done.Handed) != 0 || !slices.Equal(done.Freed, []string{"b"}) {
		t.Fatalf("%+v", done)
	}
	p := b.pass(s, "b", 5)
	if len(p.Jobs) != 1 || p.Jobs[0].ID != both || len(p.Moves) != 2 {
		t.Fatalf("%+v", p)
	}
	done = b.finishKeyed(s, 5, p.Jobs...)
	if len(done.Handed) != 1 || done.Handed[0].ID != later {
		t.Fatalf("%+v", done)
	}
	b.finishKeyed(s, 5, done.Handed...)
	if n := b.row("SELECT (SELECT count(*) FROM weir.locks) + (SELECT count(*) FROM weir.waits)"); n != "0" {
		t.Errorf("%s rows left over", n)
	}
}
