package worker

import (
	"context"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// maxFlush is how many results go into one statement.
const maxFlush = 1000

// flushers is how many statements of results may be under way.
const flushers = 2

// slowFlush is how long a flush may take before the next one waits no longer for it.
const slowFlush = 500 * time.Millisecond

// decision is a verdict on its way to the database.
type decision struct {
	t     *task
	v     verdict
	wait  time.Duration // release: until it may be claimed
	since time.Time     // first try
	sent  bool          // a try may have been committed without a reply

	broken bool // release: its payload is missing
}

// results writes verdicts like a group commit: at once when no flush is under way, else together with the next.
type results struct {
	w       *Worker
	mu      sync.Mutex
	change  *sync.Cond
	pending []*decision
	flying  int                // decisions in flushes that are under way
	busy    int                // flushes under way for which the next one waits
	closed  bool               // no more will come: flushers end when nothing is pending
	giveUp  bool               // stop trying: what cannot be written now is lost to us
	lost    int                // given up
	cut     context.CancelFunc // ends the statements under way
}

func (r *results) init(w *Worker) {
	r.w = w
	r.change = sync.NewCond(&r.mu)
}

// bound returns a context for the flushers, which ends with ctx and when flush gives up.
func (r *results) bound(ctx context.Context) context.Context {
	ctx, cut := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	return ctx
}

// reopen undoes finish, after which nothing is pending.
func (r *results) reopen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.giveUp, r.lost = false, false, 0
}

func (r *results) submit(t *task, v verdict) { r.add(&decision{t: t, v: v, wait: v.wait}) }

func (r *results) add(d *decision) {
	d.since = time.Now()
	r.mu.Lock()
	r.pending = append(r.pending, d)
	// The second flusher is for full batches alone: two half-full ones would cost two commits.
	wake := r.busy == 0 || len(r.pending) >= maxFlush/2
	r.mu.Unlock()
	if wake {
		r.change.Signal()
	}
}

// len returns how many results are not durable yet.
func (r *results) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending) + r.flying
}

// run is one flusher. It ends after close, when all is written or given up.
func (r *results) run(ctx context.Context) {
	for {
		batch := r.next()
		if batch == nil {
			return
		}
		// A row that somebody's open transaction has locked can hold a flush up for a minute, with all its tries: what came
		// since must not wait for half a batch to gather.
		slow := time.AfterFunc(slowFlush, func() { r.land(1, 0) })
		r.write(ctx, batch)
		if slow.Stop() {
			r.land(1, len(batch))
		} else {
			r.land(0, len(batch))
		}
	}
}

// land takes flushes and decisions out of the counts and lets those who wait look again.
func (r *results) land(flushes, decisions int) {
	r.mu.Lock()
	r.busy -= flushes
	r.flying -= decisions
	r.mu.Unlock()
	r.change.Broadcast()
}

func (r *results) next() []*decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.readyLocked() {
		if r.closed && len(r.pending) == 0 {
			return nil
		}
		r.change.Wait()
	}
	n := min(len(r.pending), maxFlush)
	batch := r.pending[:n:n]
	r.pending = r.pending[n:]
	if len(r.pending) == 0 {
		r.pending = nil
	}
	r.busy++
	r.flying += n
	return batch
}

func (r *results) readyLocked() bool {
	if len(r.pending) == 0 {
		return false
	}
	return r.busy == 0 || len(r.pending) >= maxFlush/2
}

// write tries a batch until every decision in it is written, refused or given up.
func (r *results) write(ctx context.Context, batch []*decision) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		rest := r.attempt(ctx, batch)
		if len(rest) == 0 {
			r.w.recovered("write results")
			return
		}
		batch = r.keep(rest)
		if len(batch) == 0 {
			return
		}
		sleep(ctx, jitter(wait))
	}
}

// keep drops what needs no further try: sessions that were given away, and results that are too old or, at the end of
// the process, too late.
func (r *results) keep(batch []*decision) []*decision {
	r.mu.Lock()
	giveUp := r.giveUp
	r.mu.Unlock()
	kept := batch[:0]
	for _, d := range batch {
		switch {
		case d.t.session.lost():
			r.w.drop(d.t, job.ErrLeaseLost)
		case giveUp || time.Since(d.since) > r.w.cfg.ResultRetryFor:
			r.mu.Lock()
			r.lost++
			r.mu.Unlock()
			r.w.drop(d.t, job.ErrLeaseLost)
		default:
			kept = append(kept, d)
		}
	}
	return kept
}

// attempt writes a batch, a statement a verb and session, and returns what was not written for the database's trouble.
func (r *results) attempt(ctx context.Context, batch []*decision) (rest []*decision) {
	type group struct {
		session *session
		verb    verb
		wait    time.Duration
		verify  bool
		keyed   bool // its locks go with it
		broken  bool
	}
	groups := make(map[group][]*decision)
	var order []group
	for _, d := range batch {
		g := group{d.t.session, d.v.verb, d.wait, d.v.verify, d.v.verb == complete && d.t.holdsKeys(), d.broken}
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], d)
	}
	for _, g := range order {
		rest = append(rest, r.send(ctx, g.session, groups[g])...)
	}
	return rest
}

// send writes decisions of one kind. A batch that fails for its data is split, so that one bad row hurts nobody else;
// a single one that the database refuses for good is discarded with that reason.
func (r *results) send(ctx context.Context, s *session, ds []*decision) (rest []*decision) {
	if s.lost() {
		return ds
	}
	err := r.statement(ctx, s, ds)
	switch {
	case err == nil:
		return nil
	case pgstore.IsData(err) && len(ds) > 1:
		half := len(ds) / 2
		return append(r.send(ctx, s, ds[:half:half]), r.send(ctx, s, ds[half:])...)
	case pgstore.IsData(err) && !ds[0].v.refused:
		ds[0].v = refusedVerdict(ds[0].t, err)
		t, v := ds[0].t, ds[0].v
		r.aside(func() { r.w.notifyError(t.context(), t, &v) }, func() {}) // it was told otherwise before
		return r.send(ctx, s, ds)
	}
	unknown := pgstore.IsUnknown(err)
	for _, d := range ds {
		d.sent = d.sent || unknown
	}
	r.w.trouble("write results", err)
	r.w.resetPools(err)
	return ds
}

// refusedVerdict is for a result or error text that Postgres does not take.
func refusedVerdict(t *task, err error) verdict {
	v := verdict{refused: true, err: err}
	v.failure = pgstore.Failure{Held: t.held()}
	v.end(job.DeadDiscarded, "discarded", EventDiscarded, err)
	v.failure.Error = "the database refused this job's result: " + v.failure.Error
	return v
}

func (r *results) statement(ctx context.Context, s *session, ds []*decision) error {
	switch v := &ds[0].v; {
	case v.verify:
		return r.verify(ctx, s, ds)
	case v.verb == complete && ds[0].t.holdsKeys():
		return r.completeKeyed(ctx, s, ds)
	case v.verb == complete:
		return r.complete(ctx, s, ds)
	case v.verb == retry:
		return r.retry(ctx, s, ds)
	case v.verb == bury:
		return r.bury(ctx, s, ds)
	}
	return r.release(ctx, s, ds)
}
