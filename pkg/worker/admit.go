package worker

import (
	"context"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// admission is one round of admitting: the candidates that may start here, what Redis says of each, and what is left.
type admission struct {
	session *session
	now     time.Time // the claim's, on the database clock
	chosen  []pgstore.Candidate
	kept    map[string]int      // slots kept for them
	crowded []pgstore.Candidate // no slot for these
	jobs    []pgstore.AdmitJob  // in step with chosen
	booked  []bool              // in step with chosen: a start now was booked in this process' shares
}

// admit decides about the candidates of a claim: Redis is asked first, since a refusal there spares the database a try;
// Postgres decides. It reports whether anything became of any of them (where nothing did, others were quicker), and whether
// some were left that must be looked at again.
func (d *dispatcher) admit(ctx context.Context, s *session, got pgstore.Claimed) (moved, left bool, err error) {
	a := d.choose(s, got)
	for _, c := range a.crowded {
		d.mark.lowerKeyed(d.laneOf(c.Queue), c.Priority, pgstore.Position{ReadyAt: c.ReadyAt, ID: c.ID})
	}
	d.crowded, d.noRoom = len(a.crowded) > 0, len(a.chosen) == 0
	if len(a.chosen) == 0 {
		return false, false, nil
	}
	d.askLocks(ctx, a)
	d.askRates(ctx, a)
	serves := d.w.serves(nil)
	serves.Kinds = d.w.known
	answer, err := d.w.claims.Admit(ctx, s.id, a.jobs, serves)
	d.w.stats.admits.Add(1)
	if err != nil {
		d.w.adopt(nil, nil, nil, a.kept)
		for _, c := range a.chosen {
			d.mark.lowerKeyed(d.laneOf(c.Queue), c.Priority, pgstore.Position{ReadyAt: c.ReadyAt, ID: c.ID})
			if pgstore.IsUnknown(err) { // it may have been blocked by then: nobody else would look once more (recheck)
				d.w.passes.owe(c.Keys...)
			}
		}
		return false, false, err
	}
	for _, l := range answer.Left {
		d.mark.lowerKeyed(d.laneOf(l.Queue), l.Priority, pgstore.Position{ReadyAt: l.ReadyAt, ID: l.ID})
	}
	d.start(a, answer)
	d.remind(a, answer)
	d.w.settleAdmission(a, answer)
	moved = len(answer.Jobs)+len(answer.Missing)+len(answer.Blocked)+len(answer.Throttled) > 0
	return moved, len(answer.Left) > 0, nil
}

// choose takes of the candidates, in order, those for which there are slots, of their queue and of their kind.
func (d *dispatcher) choose(s *session, got pgstore.Claimed) *admission {
	a := &admission{session: s, now: got.Now, kept: make(map[string]int)}
	want, room := make(map[string]int), make(map[string]int)
	var capped []*handler
	for i := range got.Candidates {
		c := &got.Candidates[i]
		want[c.Queue]++
		if h := d.w.handlers[c.Kind]; h != nil && h.slots > 0 && !slices.Contains(capped, h) {
			capped = append(capped, h)
		}
	}
	now := time.Now()
	for queue, n := range want {
		room[queue], a.kept[queue] = d.w.lanes.holdKeyed(queue, n, now)
	}
	kinds := d.w.lanes.rooms(capped, now)
	for _, c := range got.Candidates {
		h := d.w.handlers[c.Kind]
		if h == nil || room[c.Queue] == 0 || h.slots > 0 && kinds[h] == 0 {
			a.crowded = append(a.crowded, c)
			continue
		}
		room[c.Queue]--
		if h.slots > 0 {
			kinds[h]--
		}
		a.chosen = append(a.chosen, c)
		a.jobs = append(a.jobs, pgstore.AdmitJob{ID: c.ID})
	}
	if len(a.chosen) == 0 {
		d.w.adopt(nil, nil, nil, a.kept)
	}
	return a
}

// askLocks asks Redis for the locks of all chosen candidates. What it grants is a hint; what it refuses is blocked without a
// try, and looked at once more afterwards. One that owns its locks in Postgres is asked for too, so that Redis knows.
func (d *dispatcher) askLocks(ctx context.Context, a *admission) {
	if !d.w.bus.Enabled() {
		return
	}
	jobs, at := make([]coord.LockJob, 0, len(a.chosen)), make([]int, 0, len(a.chosen))
	for i := range a.chosen {
		c := &a.chosen[i]
		if len(c.Keys) == 0 {
			continue
		}
		limits := make([]int, len(c.Limits))
		for k, n := range c.Limits {
			limits[k] = int(n)
		}
		jobs, at = append(jobs, coord.LockJob{ID: c.ID.String(), Keys: c.Keys, Limits: limits}), append(at, i)
	}
	if len(jobs) == 0 {
		return
	}
	busy, err := d.w.bus.Acquire(ctx, jobs, max(grantFor, 2*d.w.cfg.Renew))
	if err != nil {
		d.w.trouble("redis", err)
		return
	}
	for k, key := range busy {
		if !a.chosen[at[k]].Reserved {
			a.jobs[at[k]].Refused = key
		}
	}
}

// start runs what was admitted, in the slots that were kept.
func (d *dispatcher) start(a *admission, answer pgstore.Admission) {
	d.w.stats.admitted.Add(int64(len(answer.Jobs)))
	d.putOffMissing(a.session, answer.Missing)
	waitedFor := make(map[string]bool, len(answer.Holders))
	for _, b := range answer.Blocked {
		waitedFor[b.Key] = true
	}
	reserved, modes := make(map[job.ID]bool), make(map[job.ID]job.Mode)
	for i := range a.chosen {
		modes[a.chosen[i].ID] = a.chosen[i].Mode
		if a.chosen[i].Reserved {
			reserved[a.chosen[i].ID] = true
		}
	}
	tasks := make([]*task, 0, len(answer.Jobs))
	for i := range answer.Jobs {
		t := &task{worker: d.w, row: answer.Jobs[i], session: a.session, handler: d.w.handlers[answer.Jobs[i].Kind]}
		t.row.Session, t.row.Mode = a.session.id, modes[t.row.ID]
		t.hot.Store(reserved[t.row.ID] || slices.ContainsFunc(locks(&t.row), func(k string) bool { return waitedFor[k] }))
		tasks = append(tasks, t)
	}
	for key := range waitedFor {
		for _, id := range answer.Holders[key] {
			if t := d.w.tasks.get(id); t != nil {
				t.hot.Store(true)
			}
		}
	}
	d.w.seat(a.session, tasks, a.kept)
}

// settleAdmission tells everyone else what came of an admission: Redis, events, and whoever waits for the keys.
func (w *Worker) settleAdmission(a *admission, answer pgstore.Admission) {
	w.stats.blocked.Add(int64(len(answer.Blocked)))
	w.stats.throttled.Add(int64(len(answer.Throttled)))
	w.advice.write(answer.Holders)
	w.passes.owe(answer.Recheck...)
	if len(answer.Blocked)+len(answer.Throttled) == 0 {
		return
	}
	on := make(map[job.ID]string, len(answer.Blocked))
	for _, b := range answer.Blocked {
		on[b.ID] = b.Key
	}
	var unused []*pgstore.Candidate
	for i := range a.chosen {
		c := &a.chosen[i]
		key, isBlocked := on[c.ID]
		if !isBlocked && !slices.Contains(answer.Throttled, c.ID) {
			continue
		}
		if a.jobs[i].Refused == "" { // Redis granted it what it does not hold
			w.advice.release(c.ID, c.Keys)
		}
		if isBlocked && a.booked != nil && a.booked[i] {
			unused = append(unused, c)
		}
		if isBlocked && w.events.some.Load() {
			w.events.send(Event{Type: EventBlocked, Row: rowOf(c), Key: key, Next: Next{State: job.Blocked, WillRetry: true}})
		}
	}
	w.unbook(unused)
}

// rowOf is what a candidate tells of its job.
func rowOf(c *pgstore.Candidate) job.Row {
	row := job.Row{
		ID: c.ID, Fence: c.Fence, Queue: c.Queue, Kind: c.Kind, Priority: c.Priority, State: job.Blocked, Attempt: c.Attempt,
		ReadyAt: c.ReadyAt,
	}
	for i, name := range c.Keys {
		row.Keys = append(row.Keys, job.Limit(name, int(c.Limits[i])))
	}
	row.Keys = append(row.Keys, c.Rates...)
	return row
}
