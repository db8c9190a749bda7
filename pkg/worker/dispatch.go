package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Polls of an idle worker, when Config.Poll says nothing.
const (
	pollWithSweeper = 30 * time.Second
	pollAlone       = 5 * time.Second
)

// maxBacklog is how many undurable results stop the claiming of more: memory is bounded when the database hangs.
const maxBacklog = 20_000

// dispatcher claims jobs for this process, one claim at a time for all its queues. The order of its steps is what makes
// a lost hint impossible: clear the pending flag (clearFirst), register as idle (regFirst), claim, sleep. Whatever
// happens after the clearing sets the flag again, and the next claim follows at once.
type dispatcher struct {
	w    *Worker
	mark *watermark // the dispatcher goroutine's own
	wake chan struct{}

	mu         sync.Mutex
	pending    bool
	hungry     bool               // the last claim was limited by the slots: a freed one matters (slotFlag)
	lowers     map[int]time.Time  // least ready_at announced per lane since the last claim
	lowerAll   bool               // look at everything
	taken      map[int]coord.Hint // per lane, hints that were answered for with a free slot since the last claim
	registered []bool             // which lanes' idle sets hold us, as far as we know
	low        []bool             // in which of them our score is too low, since a hint took some of our slots
	reconcile  bool               // compare our tasks with the database's account
	probes     map[int]*probe
	due        time.Time // local time of the next own timer; zero: none

	pollAt    time.Time     // local
	relies    bool          // pollAt is far since a sweeper and Redis were up when it was set
	unlisted  atomic.Bool   // Redis did not take our registration: no hint will come
	listedAt  time.Time     // local; of the last registration
	dbOffset  time.Duration // database clock minus local clock, from the last claim
	errors    int
	reminders []time.Time  // local; when jobs that we put off come due
	countedAt time.Time    // local; when the workers were counted
	workers   int          // how many share the rates while Redis is away
	beaten    int          // rounds in a row in which others had every job with keys
	noRoom    bool         // the last round could take none of them for want of a slot
	crowded   bool         // the last round left jobs with keys for want of a slot
	limitRoom map[int]bool // lanes with a limit where a job has ended here
	atLimit   []bool       // lanes whose last scans were cut by a limit of the whole fleet
	contended int          // claims in a row that found no turn
	busy      bool         // the last claim came back full
	full      bool         // there was no room for a claim: wait for a slot, not for a poll that is due
	deaf      bool         // a lane without a free slot stood in no idle set when the last claim was made
	passedOn  time.Time
	passOwed  []coord.Hint // queues that had more, not announced yet: passedOn was too recent

	floors  map[*handler][][pgstore.Ranges]pgstore.Position // where scans began that left out a full kind
	missing map[job.ID]time.Time                            // jobs without a log row: first seen, local
	keyed   []bool                                          // lanes whose last jobs had keys: the next claim may take some at once
	kept    map[string]int                                  // slots kept for those while it is under way
}

func newDispatcher(w *Worker) *dispatcher {
	n := len(w.lanes.all)
	return &dispatcher{
		w: w, mark: newWatermark(n), wake: make(chan struct{}, 1), lowers: make(map[int]time.Time), taken: make(map[int]coord.Hint),
		registered: make([]bool, n), low: make([]bool, n), atLimit: make([]bool, n), limitRoom: make(map[int]bool), probes: make(map[int]*probe), lowerAll: true,
		floors: make(map[*handler][][pgstore.Ranges]pgstore.Position), missing: make(map[job.ID]time.Time),
		keyed: make([]bool, n), kept: make(map[string]int),
	}
}

// run claims until ctx ends. A claim that is under way then is read to its end: its jobs are given back.
func (d *dispatcher) run(ctx context.Context) {
	work := context.WithoutCancel(ctx) // a claim that is cut off may be committed, and nobody would know its jobs
	for ctx.Err() == nil {
		d.clear()
		again, err := d.step(work)
		if err != nil {
			d.afterError(ctx, err)
			continue
		}
		if !again {
			d.sleep(ctx)
		}
	}
}

// clear takes the pending flag down before a claim: what is set from here on is seen after it.
func (d *dispatcher) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = false
	select {
	case <-d.wake:
	default:
	}
}

// signal sets the pending flag.
func (d *dispatcher) signal() {
	d.mu.Lock()
	d.pending = true
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// step makes one claim and starts what it brought. again tells that the next should follow at once.
func (d *dispatcher) step(ctx context.Context) (again bool, err error) {
	s := d.w.live()
	if s == nil {
		return false, errNoSession
	}
	if d.takeReconcile() {
		if err := d.reconcileHeld(ctx, s); err != nil {
			return false, err
		}
	}
	d.w.stats.looks.Add(1)
	d.fireProbes(time.Now())
	d.dropReminders(time.Now())
	each, total := d.room()
	d.w.giveBack(d.w.lanes.takeStalled(time.Now()))
	d.oweTaken(ctx, each)
	if d.full = total == 0; d.full {
		d.passOn(ctx)
		d.wakeForLimited(ctx)
		return false, nil // hungry is set: a freed slot wakes us
	}
	poll := !time.Now().Before(d.pollAt) || d.mark.whole || d.looksAtAll()
	registered := d.register(ctx, poll)
	got, err := d.claim(ctx, s, each, total, poll)
	if err != nil {
		return false, err
	}
	if !got.Contended { // also one that came back full: else the refusals of a whole backlog add up to forceAfter
		d.contended = 0
	}
	d.deliver(s, got)
	d.correct(ctx)
	moved, left := true, false
	if len(got.Candidates) > 0 {
		if moved, left, err = d.admit(ctx, s, got); err != nil {
			return false, err
		}
	}
	if moved {
		d.beaten = 0
	}
	d.setHungry(d.deaf || d.crowded || d.leftOut(each, got))
	d.noteLimits(ctx, each, total, got)
	d.busy = d.isFull(got)
	if !moved && (d.busy || left) && len(got.Jobs) == 0 {
		return d.letOthers(ctx)
	}
	if d.busy {
		d.owePass(got)
		d.passOn(ctx)
		return true, nil
	}
	if got.Contended {
		d.giveWay(ctx)
		return true, nil
	}
	d.armNext(got, len(got.Jobs) > 0)
	return left || !registered, nil // left: others had them, and may not start them. Or came short without being in the idle set: register, then look once more
}

// room returns what may be claimed now. Before it answers "nothing", hungry is set, so that a slot freed in between is
// not missed.
func (d *dispatcher) room() (each []int, total int) {
	d.setHungry(true)
	if d.w.results.len() > maxBacklog {
		return nil, 0
	}
	each, total = d.w.lanes.wanted(time.Now())
	return each, total
}

func (d *dispatcher) setHungry(v bool) {
	d.mu.Lock()
	d.hungry = v
	d.mu.Unlock()
}

// slotFreed wakes the dispatcher if the slots were what limited it.
func (d *dispatcher) slotFreed() {
	d.mu.Lock()
	hungry := d.hungry
	d.mu.Unlock()
	if hungry {
		d.signal()
	}
}

// claim runs the statement and keeps the cursors.
func (d *dispatcher) claim(ctx context.Context, s *session, each []int, total int, poll bool) (pgstore.Claimed, error) {
	begun, failed := time.Now(), d.errors > 0
	want := d.wantedKinds()
	d.applyLowers()
	if poll {
		snapshot, err := d.w.claims.Snapshot(ctx)
		if err != nil {
			return pgstore.Claimed{}, err
		}
		d.mark.preparePoll(snapshot)
	}
	starts := d.mark.starts(time.Now().Add(d.dbOffset))
	order := d.w.lanes.order()
	req := pgstore.ClaimRequest{Session: s.id, Kinds: want.kinds, Rooms: want.rooms, Poll: poll, Total: total, NoNext: d.w.sweeperLives(), Force: d.contended >= forceAfter}
	_, suspects := d.w.tasks.count()
	req.Suspect = suspects == 0
	for _, lane := range order {
		n := d.w.lanes.all[lane]
		if d.keyed[lane] && want.rooms == nil { // a kind with a cap counts them too: left to admit
			d.kept[n.name] = d.w.lanes.hold(n.name, each[lane])
		}
		req.Queues = append(req.Queues, pgstore.ClaimQueue{
			Name: n.name, Mode: n.modes.most(), Slots: each[lane], Starts: starts[lane], Alone: d.kept[n.name],
		})
	}
	sent := time.Now()
	got, err := d.w.claims.Claim(ctx, req)
	d.w.stats.claims.Add(1)
	if err != nil {
		d.w.adopt(nil, nil, nil, d.kept)
		clear(d.kept)
		d.mark.failed(starts)
		return pgstore.Claimed{}, err
	}
	d.w.recovered("claim")
	d.errors = 0
	d.w.client.Learn(got.Now, sent)
	d.dbOffset = time.Until(got.Now) // the answer's way back makes it rather too low: a scan begins rather early
	got.Scans, got.Held = byLane(got.Scans, order), byLane(got.Held, order)
	d.keepFloors(want, starts, append(slices.Clip(got.Jobs), got.Missing...))
	d.mark.claimed(starts, got, d.lastPositions(got), poll)
	if poll {
		d.pollAt = time.Now().Add(d.nextPoll(failed || time.Since(begun) > stalledClaim))
		d.w.stats.lastPoll.Store(time.Now().UnixNano())
	}
	return got, nil
}

// lastPositions finds, per lane and priority, the last job of the answer.
func (d *dispatcher) lastPositions(got pgstore.Claimed) [][pgstore.Ranges]pgstore.Position {
	last := make([][pgstore.Ranges]pgstore.Position, len(d.w.lanes.all))
	note := func(rows []job.Row) {
		for i := range rows {
			r := &rows[i]
			lane := slices.IndexFunc(d.w.lanes.all, func(n *lane) bool { return n.name == r.Queue })
			at := r.Priority - 1
			if len(r.Keys) > 0 {
				at += job.MaxPriority
			}
			if p := (pgstore.Position{ReadyAt: r.ReadyAt, ID: r.ID}); r.Crashes < 2 && p.Compare(last[lane][at]) > 0 {
				last[lane][at] = p
			}
		}
	}
	note(got.Jobs)
	note(got.Missing)
	for i := range got.Candidates {
		c := &got.Candidates[i]
		l := &last[d.laneOf(c.Queue)][job.MaxPriority+c.Priority-1]
		if p := (pgstore.Position{ReadyAt: c.ReadyAt, ID: c.ID}); c.Crashes < 2 && p.Compare(*l) > 0 {
			*l = p
		}
	}
	return last
}

// deliver makes tasks of claimed rows and starts as many as may start: those with keys in the slots that were kept for them.
func (d *dispatcher) deliver(s *session, got pgstore.Claimed) {
	tasks, keyed := make([]*task, 0, len(got.Jobs)), []*task(nil)
	clear(d.keyed)
	for i := range got.Jobs {
		t := &task{worker: d.w, row: got.Jobs[i], session: s, handler: d.w.handlers[got.Jobs[i].Kind]}
		t.row.Session = s.id
		t.alone = len(t.row.Keys) > 0
		d.w.tasks.add(t) // complete by now: from here on the renewal sees it
		if t.alone {
			keyed = append(keyed, t)
			d.keyed[d.laneOf(t.row.Queue)] = true
		} else {
			tasks = append(tasks, t)
		}
	}
	for i := range got.Candidates {
		d.keyed[d.laneOf(got.Candidates[i].Queue)] = true
	}
	d.w.stats.admitted.Add(int64(len(keyed)))
	d.putOffMissing(s, got.Missing)
	if s.lost() { // between the claim and now: what it has given us may run elsewhere already
		for _, t := range append(tasks, keyed...) {
			d.w.drop(t, job.ErrLeaseLost)
		}
		tasks, keyed = nil, nil
	}
	d.w.giveBack(d.w.lanes.place(keyed, d.kept, time.Now()))
	clear(d.kept)
	d.w.lanes.add(tasks, time.Now())
	for t := d.w.lanes.take(time.Now()); t != nil; t = d.w.lanes.take(time.Now()) {
		d.w.start(t)
	}
	d.w.giveBack(d.w.lanes.takeExcess(time.Now()))
}

// afterError waits a little, at most a second, and sees to what the error may have left behind.
func (d *dispatcher) afterError(ctx context.Context, err error) {
	if pgstore.IsUnknown(err) || errors.Is(err, pgstore.ErrHalfRead) {
		d.reconcileSoon() // it may have been committed, or was: read back what this session holds
	}
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, errNoSession) {
		sleep(ctx, 20*time.Millisecond)
		return
	}
	if errors.Is(err, pgstore.ErrSessionLost) {
		d.w.kickSession() // the renewal learns it too, and ends what the session holds
		sleep(ctx, 50*time.Millisecond)
		return
	}
	d.w.trouble("claim", err)
	d.w.resetPools(err)
	d.errors = min(d.errors+1, 5)
	sleep(ctx, jitter(min(50*time.Millisecond<<d.errors, time.Second)))
}
