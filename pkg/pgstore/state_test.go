package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// subject is a job in some state, and the claim that its holder has or once had.
type subject struct {
	id      job.ID
	session job.ID
	row     job.Row
}

// made are ways into each state; the name is there to tell them apart.
var made = []struct {
	state job.State
	name  string
	make  func(b *bench) subject
}{
	{"", "not enqueued", func(b *bench) subject { return subject{id: b.ids.New(), session: b.session()} }},
	{job.Scheduled, "delayed", func(b *bench) subject {
		id := b.enqueue(1, func(j *pgstore.NewJob) { j.Delay = time.Hour })[0]
		return subject{id: id, session: b.session()}
	}},
	{job.Available, "again, after a failure", func(b *bench) subject {
		s := runningSubject(0)(b)
		b.retry(s, 0, false)
		return s
	}},
	{job.Available, "fresh", func(b *bench) subject { return subject{id: b.enqueue(1)[0], session: b.session()} }},
	{job.Running, "first attempt", runningSubject(0)},
	{job.Running, "second attempt", runningSubject(1)},
	{job.Running, "after one crash", crashedSubject(1)},
	{job.Running, "second attempt, after one crash", func(b *bench) subject {
		s := crashedSubject(1)(b)
		b.exec("UPDATE weir.live SET attempt = 2")
		return s
	}},
	{job.Running, "after two crashes", crashedSubject(2)},
	{job.Running, "asked to cancel", func(b *bench) subject {
		s := runningSubject(0)(b)
		b.cancel(s.id)
		return s
	}},
	{job.Blocked, "on a key", func(b *bench) subject {
		s := subject{id: b.enqueue(1)[0], session: b.session()}
		b.decide(s, pgstore.AdmitJob{Refused: "x"})
		return s
	}},
	{job.Retrying, "after a failure", func(b *bench) subject {
		s := runningSubject(0)(b)
		b.retry(s, time.Hour, false)
		return s
	}},
	{job.Completed, "finished", func(b *bench) subject {
		s := runningSubject(0)(b)
		if _, err := b.store.Finish(b.ctx, s.session, completionsOf(s.row)); err != nil {
			b.t.Fatalf("%v", err)
		}
		return s
	}},
	{job.Discarded, "by its handler", func(b *bench) subject {
		s := runningSubject(0)(b)
		b.bury(s, job.DeadDiscarded)
		return s
	}},
	{job.Cancelled, "while it waited", func(b *bench) subject {
		s := subject{id: b.enqueue(1)[0], session: b.session()}
		b.cancel(s.id)
		return s
	}},
	{job.Expired, "while it waited", func(b *bench) subject {
		s := subject{id: b.enqueue(1)[0], session: b.session()}
		b.expire(s.id)
		return s
	}},
}

func runningSubject(failures int) func(b *bench) subject {
	return func(b *bench) subject {
		s := b.session()
		sub := subject{session: s, row: b.claimed(s, 1)[0]}
		sub.id = sub.row.ID
		for range failures {
			b.retry(sub, 0, false)
			sub.row = b.claim(s, 1)[0]
		}
		return sub
	}
}

func crashedSubject(crashes int) func(b *bench) subject {
	return func(b *bench) subject {
		sub := runningSubject(0)(b)
		for range crashes {
			b.crash(sub.session)
			b.recover()
			b.exec("UPDATE weir.live SET ready_at = clock_timestamp() - interval '1 s'")
			sub.session = b.session()
			req := request(sub.session, 1)
			req.Suspect = true
			got, err := b.store.Claim(b.ctx, req)
			if err != nil || len(got.Jobs) != 1 {
				b.t.Fatalf("claim after a crash: %d jobs, %v", len(got.Jobs), err)
			}
			sub.row = got.Jobs[0]
		}
		return sub
	}
}

// happens are the store's calls for each event. A call that has no claim uses the subject's session and row as they
// are: stale, or of another process.
var happens = []struct {
	event job.Event
	name  string
	call  func(b *bench, s subject)
}{
	{job.Enqueue, "at once", func(b *bench, s subject) { b.again(s, 0) }},
	{job.Enqueue, "with a delay", func(b *bench, s subject) { b.again(s, time.Hour) }},
	{job.ComeDue, "an hour passes", func(b *bench, s subject) {
		b.exec("UPDATE weir.live SET ready_at = ready_at - interval '61 min' WHERE ready_at > clock_timestamp() AND id = $1", s.id.UUID())
	}},
	{job.Claim, "by the same session", func(b *bench, s subject) { _, _ = b.store.Claim(b.ctx, request(s.session, 1)) }},
	{job.Block, "", func(b *bench, s subject) { b.decide(s, pgstore.AdmitJob{Refused: "x"}) }},
	{job.PutOff, "", func(b *bench, s subject) { b.decide(s, pgstore.AdmitJob{Later: time.Hour}) }},
	{job.HandOver, "", func(b *bench, s subject) { b.pass(s.session, "x", 1) }},
	{job.Reserve, "", func(b *bench, s subject) { b.pass(job.ID{}, "x", 1) }},
	{job.Finish, "", func(b *bench, s subject) {
		_, err := b.store.Finish(b.ctx, s.session, completionsOf(s.held()))
		b.must(err)
	}},
	{job.Finish, "in a transaction", func(b *bench, s subject) { _ = b.store.FinishTx(b.ctx, s.session, heldOf(s.held())[0], nil) }},
	{job.Retry, "in an hour", func(b *bench, s subject) { b.retry(s, time.Hour, false) }},
	{job.Retry, "at once", func(b *bench, s subject) { b.retry(s, 0, false) }},
	{job.SnoozeIt, "for an hour", func(b *bench, s subject) { b.retry(s, time.Hour, true) }},
	{job.SnoozeIt, "for nothing", func(b *bench, s subject) { b.retry(s, 0, true) }},
	{job.Drop, "", func(b *bench, s subject) { b.bury(s, job.DeadDiscarded) }},
	{job.Stop, "", func(b *bench, s subject) {
		asked, _, err := b.store.Cancel(b.ctx, []job.ID{s.id}, "test")
		b.must(err)
		if !asked[s.id].IsZero() { // it runs: its worker does what was asked
			b.bury(s, job.DeadCancelled)
		}
	}},
	{job.Release, "at once", func(b *bench, s subject) { b.release(s, 0) }},
	{job.Release, "for an hour", func(b *bench, s subject) { b.release(s, time.Hour) }},
	{job.Recover, "", func(b *bench, s subject) { b.crash(s.session); b.recover() }},
	{job.Expire, "", func(b *bench, s subject) { b.expire(s.id) }},
	{job.Revive, "", func(b *bench, s subject) { b.revive(s.id) }},
}

// held is what a worker would believe that it holds.
func (s subject) held() job.Row {
	r := s.row
	r.ID = s.id
	return r
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%v", err)
	}
}

// decide gives a job that is due a key and lets a session of its own decide about it.
func (b *bench) decide(s subject, a pgstore.AdmitJob) {
	b.exec("UPDATE weir.live SET keys = '{x}', flags = flags | 1, line_at = ready_at WHERE state = 0 AND ready_at <= clock_timestamp() AND id = $1", s.id.UUID())
	a.ID = s.id
	_, err := b.store.Admit(b.ctx, b.session(), []pgstore.AdmitJob{a}, serves(0))
	b.must(err)
}

func (b *bench) again(s subject, delay time.Duration) {
	j := b.newJob(func(j *pgstore.NewJob) { j.ID, j.Known, j.Delay = s.id, true, delay })
	_, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{j})
	b.must(err)
}

func (b *bench) retry(s subject, wait time.Duration, back bool) {
	_, _, err := b.store.Retry(b.ctx, s.session, failuresOf(pgstore.Failure{Outcome: "failed", Wait: wait, Back: back}, s.held()))
	b.must(err)
}

func (b *bench) bury(s subject, final int16) {
	_, err := b.store.Bury(b.ctx, s.session, failuresOf(pgstore.Failure{Outcome: "failed", Final: final}, s.held()))
	b.must(err)
}

func (b *bench) release(s subject, wait time.Duration) {
	_, _, err := b.store.Release(b.ctx, s.session, heldOf(s.held()), wait, 0)
	b.must(err)
}

// expire lets the time of a job pass, if it waits, and expires.
func (b *bench) expire(id job.ID) {
	b.exec("UPDATE weir.live SET expires_at = clock_timestamp() - interval '1 s' WHERE state <> 1 AND id = $1", id.UUID())
	_, err := b.store.Expire(b.ctx, 100)
	b.must(err)
}

// allowed reports whether the table lets a job in from become to by on. A job that is due at once is available, also
// where the table says that it retries or is scheduled: coming due is no event of its own then. The call that revives
// dead jobs makes waiting ones come due.
func allowed(from job.State, on job.Event, to job.State) bool {
	if job.Allowed(from, on, to) || on == job.Revive && job.Allowed(from, job.ComeDue, to) {
		return true
	}
	for _, between := range job.States {
		if job.Allowed(from, on, between) && job.Allowed(between, job.ComeDue, to) {
			return true
		}
	}
	return false
}

func known(from job.State, on job.Event) bool {
	for _, t := range job.Transitions {
		if t.From == from && t.On == on {
			return true
		}
	}
	return false
}

func TestTheSQLAllowsTheTransitionsOfTheTableAndNoOther(t *testing.T) {
	t.Parallel()
	b := open(t)
	seen := make(map[job.Transition]bool)
	for _, m := range made {
		for _, h := range happens {
			b.empty()
			s := m.make(b)
			name := fmt.Sprintf("%q (%s) on %s %s", m.state, m.name, h.event, h.name)
			if st := b.state(s.id); st != m.state {
				t.Fatalf("%s: it is %q", name, st)
			}
			before := b.image(s.id)
			h.call(b, s)
			after, changed := b.state(s.id), b.image(s.id) != before
			seen[job.Transition{From: m.state, On: h.event, To: after}] = true
			switch {
			case changed && !allowed(m.state, h.event, after) && !refusedByCancel(m.name, h.event, after):
				t.Errorf("%s became %q, which the table does not know", name, after)
			case !changed && known(m.state, h.event) && !refusedByCancel(m.name, h.event, after):
				t.Errorf("%s changed nothing", name)
			}
		}
	}
	for _, tr := range job.Transitions {
		if !seen[tr] {
			t.Errorf("%q on %s to %s is in the table and did not happen", tr.From, tr.On, tr.To)
		}
	}
}

// refusedByCancel: a job that somebody asked to cancel is not tried again; it waits for its worker's Bury, or ends when
// it is released.
func refusedByCancel(name string, on job.Event, after job.State) bool {
	if name != "asked to cancel" {
		return false
	}
	switch on {
	case job.Retry, job.SnoozeIt:
		return after == job.Running
	case job.Release:
		return after == job.Cancelled
	}
	return false
}
