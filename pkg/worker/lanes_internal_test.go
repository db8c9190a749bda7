package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/job"
)

var plain = &handler{kind: "plain"}

// waitingTasks makes n tasks of a queue.
func waitingTasks(queue string, h *handler, n int) []*task {
	tasks := make([]*task, n)
	for i := range tasks {
		tasks[i] = &task{row: job.Row{Queue: queue, Kind: h.kind}, handler: h}
	}
	return tasks
}

func takeAll(l *lanes, now time.Time) (out []*task) {
	for t := l.take(now); t != nil; t = l.take(now) {
		out = append(out, t)
	}
	return out
}

func TestLanesServeByWeightWhenConcurrencyBinds(t *testing.T) {
	t.Parallel()
	l := newLanes([]Queue{{"a", 10, 3, nil}, {"b", 10, 1, nil}}, 4)
	now := time.Now()
	l.add(waitingTasks("a", plain, 1000), now)
	l.add(waitingTasks("b", plain, 1000), now)
	running := takeAll(l, now)
	if len(running) != 4 {
		t.Fatalf("%d run, want Concurrency", len(running))
	}
	started := map[string]int{}
	for range 400 {
		next := l.done(running[0], now)
		running = append(running[1:], next)
		started[next.row.Queue]++
	}
	if started["a"] < 290 || started["a"] > 310 {
		t.Errorf("started %v, want 3 of a for each of b", started)
	}
}

func TestALaneThatWasIdleHasNoClaimOnThePast(t *testing.T) {
	t.Parallel()
	l := newLanes([]Queue{{"a", 5, 1, nil}, {"b", 5, 1, nil}}, 1)
	now := time.Now()
	l.add(waitingTasks("a", plain, 1000), now)
	run := l.take(now)
	for range 500 {
		run = l.done(run, now)
	}
	if order := l.order(); order[0] != 1 {
		t.Errorf("order %v: the idle lane is not asked first", order)
	}
	l.add(waitingTasks("b", plain, 100), now)
	started := map[string]int{}
	for range 100 {
		run = l.done(run, now)
		started[run.row.Queue]++
	}
	if started["b"] > 55 {
		t.Errorf("started %v: the lane that was idle starves the other", started)
	}
}

func TestACappedKindTakesItsShareAndNoMore(t *testing.T) {
	t.Parallel()
	few := &handler{kind: "few", slots: 2}
	l := newLanes([]Queue{{"a", 10, 1, nil}}, 10)
	now := time.Now()
	l.add(waitingTasks("a", few, 6), now)
	l.add(waitingTasks("a", plain, 3), now)
	running := takeAll(l, now)
	if len(running) != 5 {
		t.Fatalf("%d run, want 2 of the kind with a cap and 3 others", len(running))
	}
	if room := l.rooms([]*handler{few}, now)[few]; room != 0 {
		t.Errorf("there is room for %d more of the kind", room)
	}
	if extra := l.takeExcess(now); len(extra) != 4 {
		t.Errorf("%d are given back, want the 4 that cannot start soon", len(extra))
	}
	for _, r := range running {
		l.done(r, now)
	}
	if room := l.rooms([]*handler{few}, now)[few]; room < 2 {
		t.Errorf("there is room for %d of the kind with nothing of it here", room)
	}
	if n := l.free("a"); n != 10 {
		t.Errorf("%d slots are free", n)
	}
}

func TestThePrefetchFollowsWhatHandlersStart(t *testing.T) {
	t.Parallel()
	l := newLanes([]Queue{{"a", 10, 1, nil}}, 10)
	now := time.Now()
	if each, total := l.wanted(now); each[0] != 10 || total != 10 {
		t.Errorf("at first %v, %d are wanted: no more than the slots", each, total)
	}
	l.add(waitingTasks("a", plain, 5000), now)
	running := takeAll(l, now)
	for range 500 { // 5 ms a job and slot
		now = now.Add(500 * time.Microsecond)
		running = append(running[1:], l.done(running[0], now))
	}
	fast := l.all[0].ahead(now)
	if fast < 150 || fast > 210 {
		t.Errorf("%d ahead, want about what starts in 100 ms less the slots: 190", fast)
	}
	for range 50 { // 100 ms a job and slot
		now = now.Add(10 * time.Millisecond)
		running = append(running[1:], l.done(running[0], now))
	}
	if slow := l.all[0].ahead(now); slow > 2 {
		t.Errorf("%d ahead of slow handlers", slow)
	}
	for range 2000 {
		now = now.Add(50 * time.Microsecond)
		running = append(running[1:], l.done(running[0], now))
	}
	if n := l.all[0].ahead(now); n < 900 || n > maxPrefetch {
		t.Errorf("%d ahead of the fastest handlers", n)
	}
	if n := l.all[0].ahead(now.Add(time.Second)); n != 0 {
		t.Errorf("%d ahead after a pause: what was measured is of no use", n)
	}
	if stalled := l.takeStalled(now.Add(stall / 2)); stalled != nil {
		t.Errorf("%d were given back too soon", len(stalled))
	}
	if stalled := l.takeStalled(now.Add(stall * 2)); len(stalled) != 5000-10-500-50-2000 || l.hasWaiting() {
		t.Errorf("%d were given back after a stall", len(stalled))
	}
}

func TestNothingStartsOnceTheLanesAreClosed(t *testing.T) {
	t.Parallel()
	l := newLanes([]Queue{{"a", 2, 1, nil}}, 2)
	now := time.Now()
	l.add(waitingTasks("a", plain, 4), now)
	running := takeAll(l, now)
	l.close()
	if next := l.done(running[0], now); next != nil {
		t.Error("a task started")
	}
	left := l.takeWaiting(func(t *task) bool { return false })
	if len(left) != 2 || l.hasWaiting() {
		t.Errorf("%d were left", len(left))
	}
	l.reopen()
	l.add(left, now)
	if next := l.take(now); next != left[0] {
		t.Error("nothing starts after they are open again")
	}
}

func TestTakeWaitingKeepsTheOrderOfWhatStays(t *testing.T) {
	t.Parallel()
	l := newLanes([]Queue{{"a", 1, 1, nil}}, 1)
	tasks := waitingTasks("a", plain, 6)
	l.add(tasks, time.Now())
	odd := map[*task]bool{tasks[1]: true, tasks[3]: true, tasks[5]: true}
	out := l.takeWaiting(func(t *task) bool { return !odd[t] })
	if !slices.Equal(out, []*task{tasks[1], tasks[3], tasks[5]}) || !slices.Equal(l.all[0].waiting, []*task{tasks[0], tasks[2], tasks[4]}) {
		t.Error("the order has changed")
	}
}

// Whatever comes and goes: no lane, kind or process runs more than its slots, no task is lost or starts twice, and
// nothing idles while something may start.
func TestLanesKeepTheirBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capped := &handler{kind: "capped", slots: rapid.IntRange(1, 3).Draw(t, "cap")}
		queues := []Queue{{"a", rapid.IntRange(1, 4).Draw(t, "slots"), 2, nil}, {"b", rapid.IntRange(1, 4).Draw(t, "slots"), 1, nil}}
		l := newLanes(queues, rapid.IntRange(1, 6).Draw(t, "limit"))
		now := time.Now()
		added, seen := 0, map[*task]bool{}
		var running []*task
		start := func(x *task) {
			if x == nil {
				return
			}
			if seen[x] {
				t.Fatal("a task started twice")
			}
			seen[x] = true
			running = append(running, x)
		}
		for range 60 {
			now = now.Add(time.Duration(rapid.IntRange(0, 80).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				h := []*handler{plain, capped}[rapid.IntRange(0, 1).Draw(t, "kind")]
				n := rapid.IntRange(1, 3).Draw(t, "n")
				l.add(waitingTasks(queues[rapid.IntRange(0, 1).Draw(t, "queue")].Name, h, n), now)
				added += n
			case 1:
				if len(running) > 0 {
					i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
					done := running[i]
					running = slices.Delete(running, i, i+1)
					start(l.done(done, now))
				}
			case 2:
				added -= len(l.takeExcess(now)) + len(l.takeStalled(now))
			}
			for x := l.take(now); x != nil; x = l.take(now) {
				start(x)
			}
			checkBounds(t, l, capped, running)
		}
		waiting := l.takeWaiting(func(*task) bool { return false })
		if len(seen)+len(waiting) != added {
			t.Fatalf("%d started and %d wait of %d", len(seen), len(waiting), added)
		}
	})
}

func checkBounds(t *rapid.T, l *lanes, capped *handler, running []*task) {
	count := map[string]int{}
	for _, x := range running {
		count[x.row.Queue]++
		if x.handler == capped {
			count["capped"]++
		}
	}
	if len(running) > l.limit || count["capped"] > capped.slots || l.running != len(running) {
		t.Fatalf("%d run (%v), limit %d, cap %d, counted %d", len(running), count, l.limit, capped.slots, l.running)
	}
	for _, n := range l.all {
		if count[n.name] > n.slots || count[n.name] != n.running {
			t.Fatal(fmt.Sprintf("%d run in %s with %d slots, counted %d", count[n.name], n.name, n.slots, n.running))
		}
	}
	for _, each := range [][]int{l.idle()} {
		for i, n := range each {
			if n < 0 || n > l.all[i].slots {
				t.Fatal("free slots", n)
			}
		}
	}
}
