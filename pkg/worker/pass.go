package worker

import (
	"context"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// maxOwed bounds the keys that a process has to look after; beyond it they are left to the sweeper, which finds every key
// with a line and room within two seconds.
const maxOwed = 10_000

// passTries is how often a key is tried while the database has trouble, then it is the sweeper's.
const passTries = 6

// passes are the keys that this process freed, or on which it blocked a job, and which it must look at once more in a
// statement of its own: the one that freed the key missed the job that was being blocked, and the one that blocked the job
// missed the key that was being freed (postPass, recheck). Of two that cross, one sees the other.
type passes struct {
	mu    sync.Mutex
	keys  map[string]int // owed: tries so far
	order []string
	busy  bool          // one is under way
	more  chan struct{} // holds a value when something was added
	quiet *sync.Cond    // nothing is owed, or under way
}

func (p *passes) init() {
	p.keys, p.more = make(map[string]int), make(chan struct{}, 1)
	p.quiet = sync.NewCond(&p.mu)
}

// owe adds keys.
func (p *passes) owe(keys ...string) {
	if len(keys) == 0 {
		return
	}
	p.mu.Lock()
	for _, k := range keys {
		p.addLocked(k, 0)
	}
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *passes) addLocked(key string, tries int) {
	if _, known := p.keys[key]; known || len(p.keys) >= maxOwed {
		return
	}
	p.keys[key] = tries
	p.order = append(p.order, key)
}

// maxLook is how many keys are looked at in one statement.
const maxLook = 1000

// next returns owed keys, with how often each was tried; none, and nothing is under way any more.
func (p *passes) next() (keys []string, tries []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.order), maxLook)
	keys, p.order = p.order[:n:n], p.order[n:]
	if len(p.order) == 0 {
		p.order = nil
	}
	tries = make([]int, n)
	for i, k := range keys {
		tries[i] = p.keys[k]
		delete(p.keys, k) // before the statement: what is owed from here on needs one more
	}
	if p.busy = n > 0; !p.busy {
		p.quiet.Broadcast()
	}
	return keys, tries
}

// again puts a key behind the others after an error, unless it was tried often enough.
func (p *passes) again(key string, tries int) {
	if tries >= passTries {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(key, tries)
}

func (p *passes) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.order) == 0 && !p.busy
}

// flush waits until nothing is owed, at most until deadline.
func (p *passes) flush(deadline time.Time) {
	over := false
	stop := time.AfterFunc(time.Until(deadline), func() {
		p.mu.Lock()
		over = true
		p.mu.Unlock()
		p.quiet.Broadcast()
	})
	defer stop.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for (len(p.order) > 0 || p.busy) && !over {
		p.quiet.Wait()
	}
}

// runPasses looks at owed keys until ctx ends.
func (w *Worker) runPasses(ctx context.Context) {
	for ctx.Err() == nil {
		keys, tries := w.passes.next()
		if len(keys) == 0 {
			select {
			case <-ctx.Done():
			case <-w.passes.more:
			}
			continue
		}
		if failed := w.passAll(ctx, keys, tries); failed > 0 {
			sleep(ctx, jitter(50*time.Millisecond<<min(failed, 5)))
		}
	}
}

// passAll passes those keys on for which somebody waits: of many that were freed mostly none, which costs one statement for
// all. Those that fail are owed again; it returns how often the one that failed most has been tried.
func (w *Worker) passAll(ctx context.Context, keys []string, tries []int) (failed int) {
	tried := make(map[string]int, len(keys))
	for i, k := range keys {
		tried[k] = tries[i] + 1
	}
	trouble := func(err error, keys ...string) {
		w.trouble("pass keys on", err)
		w.resetPools(err)
		for _, k := range keys {
			failed = max(failed, tried[k])
			w.passes.again(k, tried[k])
		}
	}
	if len(keys) > 1 {
		w.stats.passes.Add(1)
		waited, err := w.claims.Waited(ctx, keys)
		if err != nil {
			trouble(err, keys...)
			return failed
		}
		keys = waited
	}
	for _, k := range keys {
		if err := w.pass(ctx, k); err != nil {
			trouble(err, k)
		}
	}
	if failed == 0 {
		w.recovered("pass keys on")
	}
	return failed
}

// pass gives a key's free slots to the first in its line, as long as one was seen to be free (passLoop): to this process if
// it has slots for them, else a reservation, and one worker is woken for it.
func (w *Worker) pass(ctx context.Context, key string) error {
	for again := true; again && ctx.Err() == nil; {
		var err error
		if again, err = w.passOnce(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) passOnce(ctx context.Context, key string) (again bool, err error) {
	s := w.live()
	var session job.ID
	kept := map[string]int{}
	if s != nil && !w.closing.Load() {
		session = s.id
		for _, n := range w.lanes.all {
			if !w.lanes.isLimited(n.name) {
				kept[n.name] = w.lanes.hold(n.name, 1)
			}
		}
	}
	defer w.takes.end(w.takes.begin())
	w.stats.passes.Add(1)
	got, err := w.claims.Pass(ctx, session, key, w.serves(kept))
	if err != nil {
		w.adopt(nil, nil, nil, kept)
		if pgstore.IsUnknown(err) {
			w.disp.reconcileSoon()
		}
		return false, err
	}
	w.stats.passed.Add(int64(len(got.Jobs)))
	w.adopt(s, got.Jobs, got.Missing, kept)
	w.reserved(ctx, got.Reserved)
	w.advice.swap(got.Moves)
	return got.Again, nil
}

// serves says what this process can take in kept slots.
func (w *Worker) serves(kept map[string]int) pgstore.Serves {
	out := pgstore.Serves{Kinds: w.uncapped, Reserve: w.reservation()}
	taking := false
	for _, n := range w.lanes.all {
		out.Queues = append(out.Queues, n.name)
		out.Take = append(out.Take, int32(kept[n.name]))
		taking = taking || kept[n.name] > 0
	}
	if !taking {
		out.Take = nil
	}
	return out
}

// reservation is how long a reservation stands: whoever was woken for it may have to find it by its poll.
func (w *Worker) reservation() time.Duration { return w.disp.pollEvery() + 2*time.Second }

// reserved wakes one worker for each job that was made the next in line: this one if it has a slot, else another.
func (w *Worker) reserved(ctx context.Context, jobs []pgstore.Reservation) {
	if len(jobs) == 0 {
		return
	}
	w.stats.reserved.Add(int64(len(jobs)))
	type subject struct{ queue, kind string }
	hints := make(map[subject]coord.Hint, 1)
	for _, r := range jobs {
		of := subject{r.Queue, r.Kind}
		h, ok := hints[of]
		if !ok || r.ReadyAt.Before(h.ReadyAt) {
			h.ReadyAt = r.ReadyAt
		}
		h.Queue, h.Kind, h.Count = r.Queue, r.Kind, h.Count+1
		hints[of] = h
	}
	var others []coord.Hint
	for _, h := range hints {
		if lane := w.disp.laneOf(h.Queue); lane >= 0 && w.knows(h.Kind) && !w.closing.Load() {
			h.Count -= w.lanes.free(h.Queue)
			w.disp.hint(lane, h) // also without a free slot: one that is freed looks there
		}
		if h.Count > 0 {
			others = append(others, h)
		}
	}
	if len(others) == 0 {
		return
	}
	if err := w.bus.Wake(ctx, others...); err != nil {
		w.trouble("redis", err)
	}
}
