package pgstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"pgregory.net/rapid"
)

// modelJob is what the model believes of a job. Its state is one of Available, Scheduled, Retrying, Running or final.
type modelJob struct {
	state          job.State
	priority       int
	attempt, fence int
	crashes        int
	asked          bool // somebody asked to cancel it
	session        int  // that runs it
	ready          time.Time
}

func (j *modelJob) waits() bool { return !j.state.Final() && j.state != job.Running }

// wait makes the job wait, due at once or not.
func (j *modelJob) wait(now bool) {
	switch {
	case now:
		j.state = job.Available
	case j.attempt > 0:
		j.state = job.Retrying
	default:
		j.state = job.Scheduled
	}
}

// claimOf is a claim that a session once got. It may be over.
type claimOf struct {
	id      job.ID
	fence   int
	session int
}

// history is one run of the model beside the database.
type history struct {
	*bench
	rt       *rapid.T
	queue    string
	sessions []job.ID // all that were opened; the last three are alive
	dead     map[int]bool
	jobs     map[job.ID]*modelJob
	ids      []job.ID
	claims   []claimOf
}

var historyActions = map[string]func(h *history){
	"enqueue": (*history).enqueueSome, "enqueue again": (*history).enqueueAgain, "enqueue, roll back": (*history).rollBack,
	"enqueue by a wrong clock": (*history).wrongClock, "claim": (*history).claimSome, "claim more": (*history).claimSome,
	"write a result": (*history).writeResult, "write another": (*history).writeResult, "crash": (*history).crashOne,
	"recover": (*history).recoverAll, "cancel": (*history).cancelOne, "revive": (*history).reviveOne,
	"delete": (*history).deleteOne, "expire": (*history).expireOne,
}

func TestRandomHistoriesKeepThePromises(t *testing.T) {
	t.Parallel()
	b := open(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		c := *b
		c.t = rt
		h := &history{bench: &c, rt: rt, queue: fmt.Sprintf("q%d", runs), dead: make(map[int]bool), jobs: make(map[job.ID]*modelJob)}
		for range 3 {
			h.sessions = append(h.sessions, h.session())
		}
		actions := map[string]func(*rapid.T){"": func(*rapid.T) { h.compare() }}
		for name, act := range historyActions {
			actions[name] = func(*rapid.T) { act(h) }
		}
		rt.Repeat(actions)
		h.promises()
	})
}

// put makes a new job of the model and of the store.
func (h *history) put() (pgstore.NewJob, *modelJob) {
	far := rapid.Bool().Draw(h.rt, "delayed")
	j := h.newJob(func(j *pgstore.NewJob) {
		j.Queue, j.Priority = h.queue, rapid.IntRange(4, 5).Draw(h.rt, "priority")
		if far {
			j.Delay = time.Hour
		}
	})
	m := &modelJob{priority: j.Priority}
	m.wait(!far)
	return j, m
}

func (h *history) enqueueSome() {
	jobs := make([]pgstore.NewJob, rapid.IntRange(1, 3).Draw(h.rt, "jobs"))
	for i := range jobs {
		var m *modelJob
		jobs[i], m = h.put()
		jobs[i].Known = i == 0 && rapid.Bool().Draw(h.rt, "known")
		h.jobs[jobs[i].ID] = m
		h.ids = append(h.ids, jobs[i].ID)
	}
	got, err := h.store.Enqueue(h.ctx, jobs)
	if err != nil || got.Inserted != len(jobs) {
		h.rt.Fatalf("enqueue: %+v, %v", got, err)
	}
}

// enqueueAgain sends an id once more, whatever has become of its job. Only one that was deleted is a new job.
func (h *history) enqueueAgain() {
	id := h.any()
	j, m := h.put()
	j.ID, j.Known = id, true
	got, err := h.store.Enqueue(h.ctx, []pgstore.NewJob{j})
	h.must(err)
	if _, there := h.jobs[id]; there == (got.Inserted == 1) || there != got.Duplicates[id] {
		h.rt.Fatalf("enqueue again: there before %v, got %+v", there, got)
	} else if !there {
		h.jobs[id] = m
	}
}

// rollBack enqueues in a transaction, in which nobody may see the job, and rolls back.
func (h *history) rollBack() {
	tx, err := h.pool.Begin(h.ctx)
	h.must(err)
	defer func() { _ = tx.Rollback(h.ctx) }()
	j, _ := h.put()
	j.Delay = 0
	_, err = h.store.On(tx).Enqueue(h.ctx, []pgstore.NewJob{j})
	h.must(err)
	h.claimSome() // fails should it get what is not in the model
}

// wrongClock enqueues ids of a caller whose clock is an hour off.
func (h *history) wrongClock() {
	j, m := h.put()
	ahead := rapid.Bool().Draw(h.rt, "ahead")
	var off job.IDs
	off.SetOffset(-time.Hour)
	if ahead {
		off.SetOffset(time.Hour)
	}
	j.ID = off.New()
	_, err := h.store.Enqueue(h.ctx, []pgstore.NewJob{j})
	if ahead {
		if !errors.Is(err, pgstore.ErrClockAhead) {
			h.rt.Fatalf("enqueue of an id an hour ahead: got %v", err)
		}
		return
	}
	h.must(err)
	h.jobs[j.ID] = m
	h.ids = append(h.ids, j.ID)
}

// any draws one of the ids that were ever enqueued.
func (h *history) any() job.ID {
	if len(h.ids) == 0 {
		h.rt.Skip("no job yet")
	}
	return rapid.SampledFrom(h.ids).Draw(h.rt, "job")
}

// due lists what a claim may take, in order: suspects or the others.
func (h *history) due(suspects bool) []job.ID {
	var ids []job.ID
	for id, j := range h.jobs {
		if j.state == job.Available && (j.crashes >= 2) == suspects {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(x, y job.ID) int {
		a, b := h.jobs[x], h.jobs[y]
		if a.priority != b.priority && !suspects {
			return a.priority - b.priority
		}
		if c := a.ready.Compare(b.ready); c != 0 {
			return c
		}
		return slices.Compare(x[:], y[:])
	})
	return ids
}

func (h *history) claimSome() {
	n := len(h.sessions) - rapid.IntRange(1, 3).Draw(h.rt, "session")
	req := request(h.sessions[n], rapid.IntRange(1, 4).Draw(h.rt, "slots"))
	req.Queues[0].Name = h.queue
	req.Suspect = rapid.Bool().Draw(h.rt, "suspect")
	req.Poll = rapid.Bool().Draw(h.rt, "poll")
	got, err := h.store.Claim(h.ctx, req)
	if h.dead[n] {
		if !errors.Is(err, pgstore.ErrSessionLost) {
			h.rt.Fatalf("a dead session claims: %v", err)
		}
		return
	}
	h.must(err)
	var want []job.ID
	if suspects := h.due(true); req.Suspect && len(suspects) > 0 {
		want = suspects[:1]
	}
	others := h.due(false)
	want = append(want, others[:min(len(others), req.Queues[0].Slots-len(want))]...)
	if len(got.Jobs) != len(want) {
		h.rt.Fatalf("claimed %d jobs, want %d", len(got.Jobs), len(want))
	}
	for _, r := range got.Jobs {
		if !slices.Contains(want, r.ID) {
			h.rt.Fatalf("claimed %s, want %v", r.ID, want)
		}
		j := h.jobs[r.ID]
		j.state, j.session = job.Running, n
		j.attempt++
		j.fence++
		if r.Fence != j.fence || r.Attempt != j.attempt || r.ReadyAt.After(got.Now) {
			h.rt.Fatalf("claimed with fence %d, attempt %d, due %s at %s; want %+v", r.Fence, r.Attempt, r.ReadyAt, got.Now, j)
		}
		h.claims = append(h.claims, claimOf{r.ID, r.Fence, n})
	}
}

// crashOne marks a session dead. What it runs is not given away yet, and what it writes until then is accepted.
func (h *history) crashOne() {
	n := len(h.sessions) - rapid.IntRange(1, 3).Draw(h.rt, "session")
	if h.dead[n] {
		h.rt.Skip("dead already")
	}
	h.crash(h.sessions[n])
	h.dead[n] = true
	h.sessions = append(h.sessions, h.session())
}

func (h *history) recoverAll() {
	got := h.recover()
	for len(got) > 0 && len(got)%100 == 0 {
		got = append(got, h.recover()...)
	}
	for _, j := range h.jobs {
		if j.state != job.Running || !h.dead[j.session] {
			continue
		}
		j.attempt--
		j.crashes++
		switch {
		case j.asked:
			j.state = job.Cancelled
		case j.crashes >= 3:
			j.state = job.Discarded
		default:
			j.fence++
			j.wait(j.crashes == 1)
		}
	}
}

func (h *history) cancelOne() {
	id := h.any()
	h.cancel(id)
	if j := h.jobs[id]; j == nil || j.state.Final() {
		return
	} else if j.state == job.Running {
		j.asked = true
	} else {
		j.state = job.Cancelled
	}
}

func (h *history) reviveOne() {
	id := h.any()
	h.revive(id)
	j := h.jobs[id]
	switch {
	case j == nil || j.state == job.Running || j.state == job.Completed:
	case j.state.Final():
		*j = modelJob{state: job.Available, priority: j.priority, fence: j.fence + 1}
	default:
		j.state = job.Available
	}
}

func (h *history) deleteOne() {
	id := h.any()
	got, _, err := h.store.Delete(h.ctx, []job.ID{id})
	h.must(err)
	j := h.jobs[id]
	if want := j != nil && j.state != job.Running; got[id] != want {
		h.rt.Fatalf("delete: got %v, want %v", got[id], want)
	} else if want {
		delete(h.jobs, id)
	}
}

func (h *history) expireOne() {
	id := h.any()
	h.expire(id)
	if j := h.jobs[id]; j != nil && j.waits() {
		j.state = job.Expired
	}
}
