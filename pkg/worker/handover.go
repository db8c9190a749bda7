package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// takes counts the statements outside the dispatcher that may make jobs run in this session: until such an answer was read
// its rows are not orphans.
type takes struct {
	mu     sync.Mutex
	next   int
	flying map[int]bool
	ended  *sync.Cond
}

func (k *takes) init() {
	k.flying, k.ended = make(map[int]bool), sync.NewCond(&k.mu)
}

func (k *takes) begin() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next++
	k.flying[k.next] = true
	return k.next
}

func (k *takes) end(n int) {
	k.mu.Lock()
	delete(k.flying, n)
	k.mu.Unlock()
	k.ended.Broadcast()
}

// settle waits until all that had begun before now have ended, at most limit.
func (k *takes) settle(limit time.Duration) bool {
	over := false
	stop := time.AfterFunc(limit, func() {
		k.mu.Lock()
		over = true
		k.mu.Unlock()
		k.ended.Broadcast()
	})
	defer stop.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	for last := k.next; ; k.ended.Wait() {
		older := false
		for n := range k.flying {
			older = older || n <= last
		}
		if !older || over {
			return !older
		}
	}
}

// holdsKeys reports whether the job holds locks while it runs; rates hold nothing.
func (t *task) holdsKeys() bool { return len(t.row.Keys) > 0 && !t.row.Keys[0].IsRate() }

// isUnheard reports whether Redis was never told of the job's lock: it was taken alone, and nobody waits for it as far as this
// process knows. Another process may have told it, having blocked a job on that lock just as this one ended: the sweeper finds
// such a member, and whom it keeps out is looked at once more (recheck).
func (t *task) isUnheard() bool { return t.alone && !t.hot.Load() }

// locks returns the names of a row's locks, which come before its rates.
func locks(row *job.Row) []string {
	var names []string
	for _, k := range row.Keys {
		if k.IsRate() {
			break
		}
		names = append(names, k.Name())
	}
	return names
}

// keepSlot keeps the slot of a task whose keys others wait for, until the statement that ends it has handed them over. It is
// called before the verdict is handed on.
func (w *Worker) keepSlot(t *task, v *verdict) {
	if !t.hot.Load() || v.verb != complete || v.verify || t.verdicts != nil || w.closing.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.freed {
		t.freed, t.kept = true, true
		w.lanes.keep(t)
	}
}

// unkeep gives back the slot that was kept for what follows t, once.
func (w *Worker) unkeep(t *task) {
	if t.hot.Load() && t.takeKept() {
		w.adopt(nil, nil, nil, map[string]int{t.row.Queue: 1})
	}
}

func (t *task) takeKept() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept
	t.kept = false
	return kept
}

// completeKeyed writes the ends of jobs that hold keys, and takes over the next in their lines in the same statement, as
// many as slots were kept.
func (r *results) completeKeyed(ctx context.Context, s *session, ds []*decision) error {
	w := r.w
	done := make([]pgstore.Completion, len(ds))
	kept := make(map[string]int, 1)
	resent := false
	for i, d := range ds {
		done[i] = pgstore.Completion{Held: d.t.held(), Result: d.v.result}
		resent = resent || d.sent
		if d.t.isKept() && !w.closing.Load() && !w.lanes.isLimited(d.t.row.Queue) {
			kept[d.t.row.Queue]++
		}
	}
	defer w.takes.end(w.takes.begin())
	got, err := w.claims.FinishKeyed(ctx, s.id, done, w.serves(kept))
	if err != nil {
		if pgstore.IsUnknown(err) { // what was handed over is found by its session, what was freed by its keys
			w.disp.reconcileSoon()
			for _, d := range ds {
				w.passes.owe(locks(&d.t.row)...)
			}
		}
		return err
	}
	if resent {
		if err := r.addWritten(ctx, s, ds, got.Accepted); err != nil {
			return err
		}
	}
	clear(kept)
	unheard := make(map[job.ID]bool) // by Redis
	for _, d := range ds {
		if d.t.takeKept() {
			kept[d.t.row.Queue]++
		}
		if d.t.isUnheard() {
			unheard[d.t.row.ID] = true
		}
	}
	w.stats.handed.Add(int64(len(got.Handed)))
	w.adopt(s, got.Handed, got.Missing, kept) // before the others are settled: a drain must not see nothing in between
	for _, d := range ds {
		r.settled(d, got.Accepted[d.t.row.ID])
	}
	w.passes.owe(got.Freed...)
	w.reserved(ctx, got.Reserved)
	w.advice.swap(slices.DeleteFunc(got.Moves, func(m pgstore.Move) bool { return m.In.IsZero() && unheard[m.Out] }))
	return nil
}

func (t *task) isKept() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept
}

// adopt takes rows that a statement has made running in session s into the slots that were kept for them, gives the other
// kept slots back and starts what may start. Rows without a payload are given back: the dispatcher meets them again.
func (w *Worker) adopt(s *session, rows, missing []job.Row, kept map[string]int) {
	tasks := make([]*task, 0, len(rows))
	for i := range rows {
		t := &task{worker: w, row: rows[i], session: s, handler: w.handlers[rows[i].Kind]}
		t.row.Session = s.id
		t.hot.Store(true)
		tasks = append(tasks, t)
	}
	for i := range missing {
		t := &task{worker: w, row: missing[i], session: s, handler: w.handlers[missing[i].Kind], decided: true, freed: true}
		t.row.Session = s.id
		w.tasks.add(t)
		w.results.add(&decision{t: t, v: verdict{verb: release, event: EventReleased}, wait: time.Second, broken: true})
	}
	w.seat(s, tasks, kept)
}

// seat gives kept slots back and starts tasks of session s in them, or whatever else may start.
func (w *Worker) seat(s *session, tasks []*task, kept map[string]int) {
	for _, t := range tasks {
		w.tasks.add(t)
	}
	if s != nil && s.lost() { // they may run elsewhere already
		for _, t := range tasks {
			w.drop(t, job.ErrLeaseLost)
		}
		tasks = nil
	}
	w.giveBack(w.lanes.place(tasks, kept, time.Now()))
	for t := w.lanes.take(time.Now()); t != nil; t = w.lanes.take(time.Now()) {
		w.start(t)
	}
	w.disp.slotFreed()
}

// passOn looks after the locks of jobs that did not complete. What an earlier try has freed, its reply being lost, is not in
// freed.
func (r *results) passOn(ds []*decision, freed []string) {
	r.w.passes.owe(freed...)
	for _, d := range ds {
		if !d.t.holdsKeys() {
			continue
		}
		keys := locks(&d.t.row)
		r.w.advice.release(d.t.row.ID, keys)
		if d.sent {
			r.w.passes.owe(keys...)
		}
	}
}

// linger is how long after it is due again a released job keeps its locks: as a reservation, so that it keeps its place, and
// while its handler may run. One without a payload does not keep them from others.
func (w *Worker) linger(d *decision) time.Duration {
	if d.broken {
		return 0
	}
	return w.reservation()
}
