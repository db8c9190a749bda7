package worker

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/job"
)

func keyedTasks(queue string, h *handler, n int) []*task {
	tasks := waitingTasks(queue, h, n)
	for _, t := range tasks {
		t.row.Keys = []job.Key{job.Mutex("k")}
	}
	return tasks
}

func TestAKeptSlotIsNobodyElses(t *testing.T) {
	t.Parallel()
	l, now := newLanes([]Queue{{"a", 3, 1, nil}}, 3), time.Now()
	if n := l.hold("a", 5); n != 3 {
		t.Fatalf("%d of 3 slots are kept", n)
	}
	l.add(waitingTasks("a", plain, 5), now)
	if next := l.take(now); next != nil || l.free("a") != 0 {
		t.Error("a job starts in a slot that is kept")
	}
	if running, _ := l.busy(); running != 0 {
		t.Errorf("%d count as running", running)
	}
	handed := keyedTasks("a", plain, 2)
	if refused := l.place(handed, map[string]int{"a": 3}, now); refused != nil {
		t.Fatalf("%d are refused", len(refused))
	}
	started := takeAll(l, now)
	if len(started) != 3 || started[0] != handed[0] || started[1] != handed[1] {
		t.Errorf("%d start, those that were handed over not first", len(started))
	}
	if running, _ := l.busy(); running != 3 {
		t.Errorf("%d count as running", running)
	}
}

func TestAnEndedTasksSlotIsKeptForWhatFollowsIt(t *testing.T) {
	t.Parallel()
	l, now := newLanes([]Queue{{"a", 1, 1, nil}}, 1), time.Now()
	l.add(waitingTasks("a", plain, 2), now)
	first := l.take(now)
	l.keep(first)
	if next := l.take(now); next != nil {
		t.Fatal("another job starts in the slot")
	}
	next := keyedTasks("a", plain, 1)
	l.place(next, map[string]int{"a": 1}, now)
	if got := l.take(now); got != next[0] {
		t.Error("what was handed over does not start first")
	}
	if l.kept != 0 || l.running != 1 {
		t.Errorf("%d kept, %d running", l.kept, l.running)
	}
}

func TestWhatIsHandedOverAsTheLanesCloseIsRefused(t *testing.T) {
	t.Parallel()
	l, now := newLanes([]Queue{{"a", 1, 1, nil}}, 1), time.Now()
	kept := map[string]int{"a": l.hold("a", 1)}
	l.close()
	tasks := keyedTasks("a", plain, 1)
	if refused := l.place(tasks, kept, now); len(refused) != 1 {
		t.Error("it is in a lane that nobody looks at any more")
	}
	if l.hold("a", 1) != 0 {
		t.Error("a slot is kept for what cannot start")
	}
	if l.running != 0 || l.kept != 0 {
		t.Errorf("%d running, %d kept", l.running, l.kept)
	}
}

func TestKeyedJobsGoInFrontOfWhatWasClaimedAhead(t *testing.T) {
	t.Parallel()
	l, now := newLanes([]Queue{{"a", 2, 1, nil}}, 2), time.Now()
	l.add(waitingTasks("a", plain, 1000), now)
	running := takeAll(l, now)
	if room, _ := l.holdKeyed("a", 5, now); room != 0 {
		t.Fatalf("room for %d while slow handlers have all slots", room)
	}
	for range 50 { // fast ones: jobs are claimed ahead from here on
		running = append(running[1:], l.done(running[0], now))
	}
	room, kept := l.holdKeyed("a", 5, now)
	if room != 2 || kept != 0 {
		t.Fatalf("room for %d with %d slots kept, want 2 and none", room, kept)
	}
	keyed := keyedTasks("a", plain, 2)
	l.place(keyed, nil, now)
	if room, _ := l.holdKeyed("a", 5, now); room != 0 {
		t.Errorf("room for %d more", room)
	}
	if next := l.done(running[0], now); next != keyed[0] {
		t.Error("it does not start next")
	}
}

func TestJobsWithKeysAreNotClaimedAhead(t *testing.T) {
	t.Parallel()
	l, now := newLanes([]Queue{{"a", 2, 1, nil}}, 2), time.Now()
	for range 100 {
		l.add(keyedTasks("a", plain, 2), now)
		for _, x := range takeAll(l, now) {
			l.done(x, now)
		}
	}
	if each, _ := l.wanted(now); each[0] != 2 {
		t.Errorf("%d are wanted for 2 slots", each[0])
	}
}

func TestNothingIsClaimedAheadOfALimitedQueue(t *testing.T) {
	t.Parallel()
	l, now := newLanes([]Queue{{"a", 2, 1, nil}}, 2), time.Now()
	l.setLimited("a", true)
	for range 100 {
		l.add(waitingTasks("a", plain, 2), now)
		for _, x := range takeAll(l, now) {
			l.done(x, now)
		}
	}
	if each, _ := l.wanted(now); each[0] != 2 {
		t.Errorf("%d are wanted for 2 slots", each[0])
	}
	l.setLimited("a", false)
	if each, _ := l.wanted(now); each[0] < 3 {
		t.Errorf("%d are wanted without the limit, though handlers are fast", each[0])
	}
}

// Whatever is held, kept, placed and ended in whatever order: no lane and no process runs more than it may, and at the end
// no slot is gone.
func TestNoOrderOfHoldingAndPlacingLosesASlot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(t, "concurrency")
		l, now := newLanes([]Queue{{"a", rapid.IntRange(1, 4).Draw(t, "a"), 1, nil}, {"b", rapid.IntRange(1, 4).Draw(t, "b"), 2, nil}}, limit), time.Now()
		var running []*task
		kept := map[string]int{}
		start := func() { running = append(running, takeAll(l, now)...) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			queue := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				kept[queue] += l.hold(queue, rapid.IntRange(0, 3).Draw(t, "n"))
			case 1:
				n := rapid.IntRange(0, kept[queue]).Draw(t, "handed")
				l.place(keyedTasks(queue, plain, n), map[string]int{queue: kept[queue]}, now)
				kept[queue] = 0
				start()
			case 2:
				l.add(waitingTasks(queue, plain, rapid.IntRange(1, 3).Draw(t, "claimed")), now)
				start()
			case 3:
				if len(running) > 0 {
					next := l.done(running[0], now)
					if running = running[1:]; next != nil {
						running = append(running, next)
					}
				}
			case 4:
				if len(running) > 0 {
					l.keep(running[0])
					kept[running[0].row.Queue]++
					running = running[1:]
				}
			}
			per := map[string]int{"a": kept["a"], "b": kept["b"]}
			for _, x := range running {
				per[x.row.Queue]++
			}
			for _, n := range l.all {
				if n.running != per[n.name] || n.running > n.slots {
					t.Fatalf("lane %s: %d counted, %d there, %d slots", n.name, n.running, per[n.name], n.slots)
				}
			}
			if l.running != per["a"]+per["b"] || l.running > limit || l.kept != kept["a"]+kept["b"] {
				t.Fatalf("%d counted and %d kept, %v there, limit %d", l.running, l.kept, per, limit)
			}
		}
	})
}
