package worker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// world is a model of the database as the watermark rule meets it: transactions that stamp a row and commit later, or
// never, hints that get lost, and dispatchers whose claims skip locked rows and may roll back.
type world struct {
	choose func(n int) int // from 0 to n-1
	mutate func(*watermark, *pgstore.Claimed)
	now    time.Time
	xid    uint64          // next
	done   uint64          // highest that is over: a snapshot's xmax is the one after, whatever was begun since
	open   map[uint64]*row // nil: a transaction without a row
	rows   []*row          // committed, not claimed
	nextID byte
	disps  [2]*model
	errs   []string
}

type row struct {
	at     pgstore.Position
	born   time.Time // of the commit
	locked bool      // by a claim under way
	misses [2]int    // polls of each dispatcher that should have seen it and did not
}

// model is a dispatcher: the real watermark and the claim that is under way.
type model struct {
	mark   *watermark
	phase  int // 0 none, 1 prepared, 2 scanned
	poll   bool
	begun  time.Time
	starts [][pgstore.Ranges]pgstore.Position
	got    pgstore.Claimed
	last   pgstore.Position
	taken  []*row
	seen   []*row // not locked by another when it looked
	xid    uint64
	hints  []time.Time
}

func newWorld(choose func(int) int, mutate func(*watermark, *pgstore.Claimed)) *world {
	w := &world{choose: choose, mutate: mutate, now: time.Unix(1_800_000_000, 0), xid: 700, done: 699, open: map[uint64]*row{}}
	for i := range w.disps {
		w.disps[i] = &model{mark: newWatermark(1)}
	}
	return w
}

func (w *world) begin(r *row) (xid uint64) {
	xid = w.xid
	w.xid++
	w.open[xid] = r
	return xid
}

func (w *world) end(xid uint64) {
	delete(w.open, xid)
	w.done = max(w.done, xid)
}

func (w *world) snapshot() string {
	var list []string
	for x := range w.open {
		if x <= w.done {
			list = append(list, fmt.Sprint(x))
		}
	}
	slices.Sort(list)
	return fmt.Sprintf("1:%d:%s", w.done+1, strings.Join(list, ","))
}

// step does one thing that can happen.
func (w *world) step() {
	switch w.choose(9) {
	case 0:
		w.now = w.now.Add(time.Duration(1+w.choose(40)) * 50 * time.Millisecond)
	case 1: // a producer; its row was stamped a little before its transaction got a number
		w.nextID++
		at := w.now.Add(-time.Duration(w.choose(18)) * 50 * time.Millisecond)
		if w.choose(4) == 0 {
			at = w.now.Add(time.Duration(w.choose(60)) * 50 * time.Millisecond) // a delay
		}
		w.begin(&row{at: pgstore.Position{ReadyAt: at, ID: job.ID{15: w.nextID}}})
	case 2:
		w.endOne(w.choose(4) > 0)
	default:
		i := w.choose(len(w.disps))
		w.turn(i)
	}
}

// endOne commits or rolls back one of the producers' transactions.
func (w *world) endOne(commit bool) {
	var xids []uint64
	for x, r := range w.open {
		if r != nil {
			xids = append(xids, x)
		}
	}
	if len(xids) == 0 {
		return
	}
	slices.Sort(xids)
	x := xids[w.choose(len(xids))]
	r := w.open[x]
	w.end(x)
	if !commit {
		return
	}
	r.born = w.now
	w.rows = append(w.rows, r)
	if w.choose(4) == 0 { // most hints get lost
		d := w.disps[w.choose(len(w.disps))]
		d.hints = append(d.hints, r.at.ReadyAt)
	}
}

// turn lets a dispatcher do the next part of a claim.
func (w *world) turn(i int) {
	d := w.disps[i]
	switch d.phase {
	case 0:
		for _, at := range d.hints {
			d.mark.lower(0, at)
		}
		d.hints = nil
		d.poll = w.choose(3) == 0 || d.mark.whole
		d.begun = w.now
		if d.poll {
			d.mark.preparePoll(w.snapshot())
		}
		d.starts = d.mark.starts(w.now)
	case 1:
		w.scan(d)
	case 2:
		w.endClaim(i, w.choose(4) > 0)
	}
	d.phase = (d.phase + 1) % 3
}

// scan is the statement up to its commit.
func (w *world) scan(d *model) {
	d.got = pgstore.Claimed{Now: w.now, Snapshot: w.snapshot(), Scans: make([][pgstore.Ranges]pgstore.Scan, 1), Held: make([][pgstore.Ranges]time.Time, 1)}
	for p := range d.got.Scans[0] {
		d.got.Scans[0][p] = pgstore.Complete
	}
	for range w.choose(2) { // others get numbers between the snapshot and ours
		w.nextID++
		w.begin(&row{at: pgstore.Position{ReadyAt: w.now, ID: job.ID{15: w.nextID}}})
	}
	d.xid = w.begin(nil)
	d.got.XID = fmt.Sprint(d.xid)
	d.taken, d.seen, d.last = nil, nil, pgstore.Position{}
	slices.SortFunc(w.rows, func(a, b *row) int { return a.at.Compare(b.at) })
	limit := w.choose(5)
	if limit == 0 { // no free slot in this queue: the claim serves others
		d.got.Scans[0] = [pgstore.Ranges]pgstore.Scan{}
		return
	}
	for _, r := range w.rows {
		due := !r.at.ReadyAt.After(w.now)
		if !due || r.locked {
			if due && r.at.Compare(d.starts[0][0]) >= 0 && d.got.Held[0][0].IsZero() {
				d.got.Held[0][0] = r.at.ReadyAt
			}
			continue
		}
		if r.at.Compare(d.starts[0][0]) >= 0 && len(d.taken) < limit {
			d.taken = append(d.taken, r)
			d.last = r.at
			continue
		}
		if r.at.Compare(d.starts[0][0]) >= 0 && d.got.Held[0][0].IsZero() {
			d.got.Held[0][0] = r.at.ReadyAt
		}
		d.seen = append(d.seen, r) // due, free, and not taken
	}
	for _, r := range d.taken {
		r.locked = true
	}
	if len(d.taken) == limit {
		d.got.Scans[0][0] = pgstore.Cut
	}
}

func (w *world) endClaim(i int, commit bool) {
	d := w.disps[i]
	w.end(d.xid)
	for _, r := range d.taken {
		r.locked = false
	}
	if !commit {
		d.mark.failed(d.starts)
		return
	}
	w.rows = slices.DeleteFunc(w.rows, func(r *row) bool { return slices.Contains(d.taken, r) })
	last := make([][pgstore.Ranges]pgstore.Position, 1)
	last[0][0] = d.last
	if w.mutate != nil {
		w.mutate(nil, &d.got)
	}
	d.mark.claimed(d.starts, d.got, last, d.poll)
	if w.mutate != nil {
		w.mutate(d.mark, &d.got)
	}
	if !d.poll {
		return
	}
	for _, r := range d.seen {
		beyond := d.got.Scans[0][0] == pgstore.Cut && r.at.Compare(d.last) > 0 // its turn comes with the next claim
		if beyond || r.born.After(d.begun) {
			continue
		}
		if r.misses[i]++; r.misses[i] == 2 {
			w.errs = append(w.errs, fmt.Sprintf("row of %v, committed %v, was not seen by the poll of %v", r.at.ReadyAt, r.born, d.got.Now))
		}
	}
}

func TestACommittedRowIsClaimedByTheSecondPollAfterItsCommit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }, nil)
		for range rapid.IntRange(50, 200).Draw(t, "steps") {
			if w.step(); len(w.errs) > 0 {
				t.Fatal(w.errs[0])
			}
		}
	})
}

// Each part of the rule is needed: without it a history is found in which a row is missed.
func TestEachPartOfTheWatermarkRuleIsNeeded(t *testing.T) {
	t.Parallel()
	after := func(f func(*watermark)) func(*watermark, *pgstore.Claimed) {
		return func(m *watermark, _ *pgstore.Claimed) {
			if m != nil {
				f(m)
			}
		}
	}
	before := func(f func(*pgstore.Claimed)) func(*watermark, *pgstore.Claimed) {
		return func(m *watermark, got *pgstore.Claimed) {
			if m == nil {
				f(got)
			}
		}
	}
	mutations := map[string]func(*watermark, *pgstore.Claimed){
		"held: rows seen and not got":       before(func(got *pgstore.Claimed) { got.Held = make([][pgstore.Ranges]time.Time, 1) }),
		"births of open transactions":       after(func(m *watermark) { m.open, m.owed = nil, time.Time{} }),
		"those between xmax and our number": before(func(got *pgstore.Claimed) { got.XID = strings.Split(got.Snapshot, ":")[1] }),
		"the lowest start since the poll":   after(func(m *watermark) { m.lanes[0][0].later = false }),
		"the margin": after(func(m *watermark) {
			if !m.polled.IsZero() {
				m.polled = m.polled.Add(margin)
			}
		}),
		"what ended between the two snapshots": after(func(m *watermark) { m.owed = time.Time{} }),
	}
	for name, mutate := range mutations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n := misses(mutate, 20_000); n == 0 {
				t.Error("nothing was missed without it")
			}
		})
	}
	if n := misses(nil, 5_000); n != 0 {
		t.Errorf("with all parts %d histories miss a row", n)
	}
}

// firstSeed is where the history that needs the rarest part is soon met.
const firstSeed = 9000

// misses returns 1 once a history misses a row, 0 if none of so many does.
func misses(mutate func(*watermark, *pgstore.Claimed), histories int) int {
	for seed := firstSeed; seed < firstSeed+histories; seed++ {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		w := newWorld(random.IntN, mutate)
		for range 200 {
			if w.step(); len(w.errs) > 0 {
				return 1
			}
		}
	}
	return 0
}

func TestAPollDoesNotGoBackToWhereTheOneBeforeBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(func(int) int { return 1 }, nil)
	d := w.disps[0]
	poll := func() time.Time {
		d.poll = true
		d.mark.preparePoll(w.snapshot())
		d.starts = d.mark.starts(w.now)
		w.scan(d)
		w.endClaim(0, true)
		return d.starts[0][0].ReadyAt
	}
	poll()
	for range 3 {
		for x := range w.open {
			w.end(x)
		}
		w.now = w.now.Add(time.Minute)
		poll()
	}
	if from := poll(); w.now.Sub(from) > time.Minute+margin {
		t.Errorf("a poll began %v back, with polls a minute apart", w.now.Sub(from))
	}
}

func TestAnotherServerMakesTheNextScanOneOfEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(func(int) int { return 1 }, nil)
	m := w.disps[0].mark
	answer := func(snapshot, xid string) {
		scans, held := make([][pgstore.Ranges]pgstore.Scan, 1), make([][pgstore.Ranges]time.Time, 1)
		m.claimed(m.starts(w.now), pgstore.Claimed{Now: w.now, Snapshot: snapshot, XID: xid, Scans: scans, Held: held},
			make([][pgstore.Ranges]pgstore.Position, 1), true)
	}
	answer("1:800:", "800")
	if m.whole {
		t.Error("after a poll the next is one of everything")
	}
	answer("1:700:", "700")
	if !m.whole || !m.polled.IsZero() {
		t.Error("a lower transaction number was not noticed")
	}
	answer("rubbish", "700")
	if !m.whole {
		t.Error("a snapshot that cannot be read was believed")
	}
}
