package model

import (
	"strings"
	"testing"
)

// most bounds every exploration, and so the memory of this package: a world beyond it is too large for a test.
const most = 2_000_000

// world is a model with its numbers: how many jobs, locks and slots there are, and what may go wrong.
type world struct {
	name    string
	isLarge bool // left out of short runs
	explore func(off guard) (outcome, error)
}

func of[S comparable](name string, build func(off guard) system[S]) world {
	return world{name: name, explore: func(off guard) (outcome, error) { return explore(build(off), most) }}
}

func large(w world) world {
	w.isLarge = true
	return w
}

func ofLocks(name string, m locks) world {
	m.jobs = lockJobs
	return of(name, func(off guard) system[lockState] {
		m := m
		m.off = off
		return m
	})
}

func ofWakes(name string, m wakes) world {
	return of(name, func(off guard) system[wakeState] {
		m := m
		m.off = off
		return m
	})
}

func ofEnqueues(name string, m enqueues) world {
	return of(name, func(off guard) system[enqueueState] {
		m := m
		m.off = off
		return m
	})
}

var (
	sameLock = [lockJobs][]int{{0}, {0}, {0}}
	ofBoth   = [lockJobs][]int{{0}, {0, 1}, {1}} // the second waits for both locks
	turned   = [lockJobs][]int{{1}, {0, 1}, {0}}
	allBoth  = [lockJobs][]int{{0, 1}, {0, 1}, {0, 1}}
	ones     = [lockKeys]int8{1, 1}
	twos     = [lockKeys]int8{2, 1}
	anyKind  = [2]bool{true, true}
)

var worlds = []world{
	of("leases", func(off guard) system[leaseState] { return leases{guarded: guarded{off}, faults: 2} }),
	of("leases, one fault", func(off guard) system[leaseState] { return leases{guarded: guarded{off}, faults: 1} }),
	of("trust", func(off guard) system[trustState] { return trusts{guarded: guarded{off}, faults: 8} }),
	of("watchdog", func(off guard) system[watchState] { return watches{guarded{off}} }),

	ofLocks("one lock", locks{keys: sameLock, limit: ones, slots: 1}),
	large(ofLocks("one lock, Redis says anything", locks{keys: sameLock, limit: ones, slots: 2, redis: true})),
	ofLocks("one lock, FinishTx", locks{keys: sameLock, limit: ones, slots: 2, tx: true}),
	ofLocks("one lock, reservations run out, cancels", locks{keys: sameLock, limit: ones, slots: 1, faults: 1, expiry: true, cancel: true}),
	ofLocks("one lock, releases, frozen workers", locks{keys: sameLock, limit: ones, slots: 1, faults: 2, release: true, freeze: true}),
	ofLocks("one lock, a crash or a lost answer", locks{keys: sameLock, limit: ones, slots: 1, faults: 1, lost: true, crash: true}),
	large(ofLocks("one lock, crashes and lost answers", locks{keys: sameLock, limit: ones, slots: 1, faults: 2, lost: true, crash: true})),
	ofLocks("two locks", locks{keys: ofBoth, limit: ones, slots: 1, tx: true}),
	large(ofLocks("two locks, Redis says anything", locks{keys: turned, limit: ones, slots: 1, redis: true})),
	large(ofLocks("two locks, reservations run out, cancels", locks{keys: allBoth, limit: ones, slots: 1, faults: 1, expiry: true, cancel: true})),
	large(ofLocks("two locks, a crash or a frozen worker", locks{keys: ofBoth, limit: ones, slots: 1, faults: 1, crash: true, freeze: true})),
	ofLocks("a lock for two that is lowered", locks{keys: sameLock, limit: twos, slots: 2, faults: 1, lower: true}),
	large(ofLocks("a lock for two, Redis says anything", locks{keys: sameLock, limit: twos, slots: 1, redis: true})),
	ofLocks("a lock for two that is lowered, frozen workers", locks{keys: sameLock, limit: twos, slots: 1, faults: 2, lower: true, freeze: true}),

	ofLocks("alone, one lock", locks{keys: sameLock, limit: ones, slots: 2, aside: true, tx: true}),
	ofLocks("alone, one lock, a crash or a lost answer", locks{keys: sameLock, limit: ones, slots: 1, faults: 1, aside: true, lost: true, crash: true}),
	ofLocks("alone, one lock, releases, a frozen worker", locks{keys: sameLock, limit: ones, slots: 1, faults: 1, aside: true, release: true, freeze: true}),
	ofLocks("alone, two locks", locks{keys: ofBoth, limit: ones, slots: 2, aside: true}),
	ofLocks("alone, a lock for two that is lowered", locks{keys: sameLock, limit: twos, slots: 2, faults: 1, aside: true, lower: true}),

	ofWakes("wakes", wakes{jobs: 3, slots: 1, knows: anyKind}),
	ofWakes("wakes, two slots", wakes{jobs: 3, slots: 2, knows: anyKind}),
	ofWakes("wakes, a kind that one knows", wakes{jobs: 2, slots: 1, knows: [2]bool{false, true}}),
	ofWakes("wakes, a crash", wakes{jobs: 3, slots: 1, knows: anyKind, crash: true}),
	ofWakes("wakes, a worker closes", wakes{jobs: 3, slots: 1, knows: anyKind, close: true}),
	ofWakes("wakes, a slot is handed over", wakes{jobs: 2, slots: 1, knows: anyKind, handOver: true}),
	large(ofWakes("wakes, FLUSHALL", wakes{jobs: 2, slots: 1, knows: anyKind, flush: true})),

	ofEnqueues("enqueues", enqueues{}),
	ofEnqueues("enqueues, a unique key", enqueues{unique: true}),
	ofEnqueues("enqueues, a unique key for a time", enqueues{unique: true, window: true}),
}

func TestNoInterleavingBreaksAPromise(t *testing.T) {
	t.Parallel()
	for _, w := range worlds {
		if w.isLarge && testing.Short() {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			if !w.isLarge { // one of those at a time, for the memory
				t.Parallel()
			}
			got, err := w.explore(0)
			if err != nil || got.wrong != "" {
				t.Errorf("%v, %v", got, err)
			}
			t.Log(w.name, got.states, "states")
		})
	}
}

// mutations: each guard that is taken away, alone or with those that cover it, where that is noticed, and the start of what is
// said then.
var mutations = []struct {
	off   guard
	world string
	wrong string
}{
	{finishFence, "leases", "P3: a stale result"},
	{claimFence | recoverFence, "leases", "P3: one fence names two claims"},
	{rescan, "leases", "stuck"},
	{orphans, "leases", "stuck"},
	{adoptFenced, "leases", "P3: a claim was given back"},
	{rowLock, "leases", "P8: a session with a good lease"},
	{renewExpired, "leases", "P8: work was thrown away"},
	{wholeAnswer, "leases", "P2"},

	{fromSent, "watchdog", "P4"},
	{trustLease, "trust", "P8"},
	{trustWrites, "trust", "P8"},
	{strictGap, "trust", "P8"},
	{clockCheck, "trust", "P8"},

	{claimFence, "one lock", "stuck"},
	{finishFence, "one lock, releases, frozen workers", "P3: a stale result"},
	{lockDelFenced, "one lock, releases, frozen workers", "P6"},
	{postPass, "one lock", "P6"},
	{recheck, "one lock", "P6"},
	{orphans, "one lock, a crash or a lost answer", "stuck"},
	{cancelPass, "one lock, reservations run out, cancels", "P6"},
	{passLoop, "a lock for two, Redis says anything", "P6"},
	{plainRead, "two locks", "P7"},
	{plainRead | lineCheck, "one lock", "P7"},
	{lostKeeps | lineCheck, "one lock, Redis says anything", "P7"},
	{batchOrder, "one lock, Redis says anything", "P4"},
	{olderBlocked, "one lock", "P7"},
	{ownRow, "one lock, releases, frozen workers", "P7"},
	{ownRowLimit, "a lock for two that is lowered, frozen workers", "P4"},
	{limitCount, "one lock, releases, frozen workers", "P4"},
	{pgReserve, "two locks", "P7"},
	{oldestOnly | lockIfFree, "one lock", "P7"},
	{passWaits | lockIfFree | passLoop, "one lock", "P6"},
	{lingerKept, "one lock, releases, frozen workers", "P4"},
	{backInLine, "one lock, reservations run out, cancels", "P7"},
	{aloneInLine, "alone, one lock", "P7"},
	{aloneUnblocked, "alone, one lock", "P7"},
	{aloneInBatch, "alone, two locks", "P7"},

	{clearFirst, "wakes", "P6"},
	{regFirst, "wakes", "P6"},
	{slotFlag, "wakes", "P6"},
	{fullForward, "wakes", "P6"},
	{busyForward, "wakes, a slot is handed over", "P6"},
	{kindForward, "wakes, a kind that one knows", "P6"},
	{closeForward, "wakes, a worker closes", "P6"},
	{receivers, "wakes, a crash", "P6"},
	{reregister, "wakes, FLUSHALL", "P6"},

	{liveFromLog, "enqueues", "P1"},
	{uniqueAsksLog, "enqueues, a unique key", "a unique key is left"},
	{keyDies, "enqueues, a unique key", "a unique key is left"},
	{sweepTidies, "enqueues, a unique key for a time", "stuck"},
	{sweepByJob, "enqueues, a unique key for a time", "a live job has lost"},
}

func find(t *testing.T, name string) world {
	t.Helper()
	for _, w := range worlds {
		if w.name == name {
			return w
		}
	}
	t.Fatalf("no world %q", name)
	return world{}
}

func TestEachGuardIsMissedWhenItIsTakenAway(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		t.Run(m.off.String(), func(t *testing.T) {
			t.Parallel()
			got, err := find(t, m.world).explore(m.off)
			if err != nil || got.wrong == "" || !strings.HasPrefix(got.wrong, m.wrong) {
				t.Errorf("without %v: %v, %v, want %s", m.off, got, err, m.wrong)
			}
			t.Log(got)
		})
	}
}

// secondLines are guards that others cover: taken away alone nothing breaks in these worlds. Should one begin to matter,
// something that covered it is gone, or was never as it is modelled.
var secondLines = []struct {
	off   guard
	world string
}{
	{recoverFence, "leases"},
	{sessionGuard, "leases, one fault"},
	{lineCheck, "one lock"},
	{lostKeeps, "two locks"},
	{lockIfFree, "one lock"},
	{passWaits, "one lock"},
	{passWaits | lockIfFree, "one lock"},
	{oldestOnly, "one lock"},
	{resvAll, "two locks, reservations run out, cancels"},
	{leaveFirst, "wakes"},
}

func TestGuardsThatOthersCoverBreakNothingAlone(t *testing.T) {
	t.Parallel()
	for _, m := range secondLines {
		w := find(t, m.world)
		if testing.Short() {
			continue
		}
		t.Run(m.off.String(), func(t *testing.T) {
			t.Parallel()
			got, err := w.explore(m.off)
			if err != nil || got.wrong != "" {
				t.Errorf("without %v: %v, %v", m.off, got, err)
			}
		})
	}
}

// TestWhatIsLeftToTheSecondLine keeps the shortest ways to what the usual steps do not repair: a poll or the sweeper does,
// within seconds. Should a promise hold in one of these worlds, it belongs to worlds.
func TestWhatIsLeftToTheSecondLine(t *testing.T) {
	t.Parallel()
	for _, w := range []world{
		ofLocks("the answer of an admit is lost, and with it the re-check", locks{keys: sameLock, limit: ones, slots: 1, faults: 1, lost: true, strict: true}),
		ofLocks("a process dies that has freed a lock", locks{keys: sameLock, limit: ones, slots: 1, faults: 1, crash: true, strict: true}),
		ofWakes("a slot is handed over between a hint and its claim", wakes{jobs: 2, slots: 1, knows: anyKind, handOver: true, strict: true}),
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			got, err := w.explore(0)
			if err != nil || !strings.HasPrefix(got.wrong, "P6") {
				t.Errorf("%v, %v", got, err)
			}
			t.Log(got)
		})
	}
}

func TestEveryGuardIsTakenAwayOnce(t *testing.T) {
	t.Parallel()
	var all guard
	for _, m := range mutations {
		all |= m.off
	}
	for _, m := range secondLines {
		all |= m.off
	}
	for i := range names {
		if g := guard(1) << i; all&g == 0 {
			t.Errorf("%v is never taken away", g)
		}
	}
	if want := guard(1)<<len(names) - 1; all != want {
		t.Errorf("the names do not fit the constants: %b, want %b", all, want)
	}
}
