package pgstore_test

import (
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"pgregory.net/rapid"
)

// writeResult lets the holder of any claim, current or not, write what became of it.
func (h *history) writeResult() {
	if len(h.claims) == 0 {
		h.rt.Skip("no claim yet")
	}
	c := rapid.SampledFrom(h.claims).Draw(h.rt, "claim")
	j := h.jobs[c.id]
	current := j != nil && j.state == job.Running && j.fence == c.fence && j.session == c.session
	s := subject{id: c.id, session: h.sessions[c.session], row: job.Row{ID: c.id, Fence: c.fence}}
	verb := rapid.SampledFrom([]job.Event{job.Finish, job.Finish, job.Retry, job.SnoozeIt, job.Drop, job.Release}).Draw(h.rt, "verb")
	now := rapid.Bool().Draw(h.rt, "at once")
	if got := h.write(verb, s, now); got != (current && !(j.asked && (verb == job.Retry || verb == job.SnoozeIt))) {
		h.rt.Fatalf("%s with fence %d by session %d: accepted %v; the model has %+v", verb, c.fence, c.session, got, j)
	} else if got {
		j.apply(verb, now)
	}
}

func (h *history) write(verb job.Event, s subject, now bool) bool {
	wait := time.Hour
	if now {
		wait = 0
	}
	f := failuresOf(pgstore.Failure{Outcome: "failed", Error: "x", Ran: time.Second, Wait: wait, Back: verb == job.SnoozeIt, Final: job.DeadDiscarded}, s.row)
	var (
		due map[job.ID]time.Time
		got map[job.ID]bool
		err error
	)
	switch verb {
	case job.Finish:
		got, err = h.store.Finish(h.ctx, s.session, completionsOf(s.row))
	case job.Drop:
		var buried pgstore.Buried
		buried, err = h.store.Bury(h.ctx, s.session, f)
		got = buried.Ended
	case job.Release:
		due, _, err = h.store.Release(h.ctx, s.session, heldOf(s.row), wait, 0)
	default:
		due, _, err = h.store.Retry(h.ctx, s.session, f)
	}
	h.must(err)
	return got[s.id] || !due[s.id].IsZero()
}

// apply changes the model as an accepted write does.
func (j *modelJob) apply(verb job.Event, now bool) {
	if verb == job.Release || verb == job.SnoozeIt {
		j.attempt--
	}
	switch {
	case verb == job.Finish:
		j.state = job.Completed
	case verb == job.Drop:
		j.state = job.Discarded
	case j.asked:
		j.state = job.Cancelled
	default:
		j.fence++
		if verb != job.Release {
			j.crashes = 0
		}
		j.wait(now)
	}
}

// compare checks every job of the model against job_status, and learns when the waiting ones are due.
func (h *history) compare() {
	page, err := h.store.Jobs(h.ctx, pgstore.Page{Queue: h.queue, Limit: 10_000})
	h.must(err)
	if len(page) != len(h.jobs) {
		h.rt.Fatalf("job_status has %d jobs, want %d", len(page), len(h.jobs))
	}
	for _, r := range page {
		j := h.jobs[r.ID]
		if j == nil {
			h.rt.Fatalf("job_status has %s, which the model has not", r.ID)
		}
		if r.State != j.state || r.Attempt != j.attempt || r.Fence != j.fence || r.Priority != j.priority {
			h.rt.Fatalf("job_status has %s, attempt %d, fence %d, priority %d; want %+v", r.State, r.Attempt, r.Fence, r.Priority, j)
		}
		if !j.state.Final() && (r.Crashes != j.crashes || r.Session.IsZero() == (j.state == job.Running)) {
			h.rt.Fatalf("job_status has %d crashes, session %s; want %+v", r.Crashes, r.Session, j)
		}
		j.ready = r.ReadyAt
	}
}

// promises checks at the end that every acknowledged job is live or has exactly one end.
func (h *history) promises() {
	for id, j := range h.jobs {
		n := h.row(`SELECT (SELECT count(*) FROM weir.live WHERE id = $1), (SELECT count(*) FROM weir.outcomes WHERE id = $1),
			(SELECT count(*) FROM weir.dead WHERE id = $1)`, id.UUID())
		want := "1,0,0"
		if j.state == job.Completed {
			want = "0,1,0"
		} else if j.state.Final() {
			want = "0,0,1"
		}
		if n != want {
			h.rt.Fatalf("%s: live, outcomes, dead are %s, want %s", id, n, want)
		}
	}
}
