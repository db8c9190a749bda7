package coord_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/coord"
)

func TestOneJobWakesExactlyOneOfAThousandIdleWorkers(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		b := coord.New(rdb, patient(ns))
		all := listenToAll(t, rdb, ns)
		for i := range 1000 {
			must(t, b.Register(t.Context(), fmt.Sprintf("w%d", i), coord.Idle{Queue: "mail", Free: 1 + i%50}))
		}
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "mail", Count: 1}))
		if got := all.take(t); len(got) != 1 {
			t.Errorf("woken: got %d workers (%s), want 1", len(got), names(got))
		}
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "mail", Count: 500}))
		// 50 slots are the most; 19 such workers are left, then come those with 49.
		if got := all.take(t); len(got) < 10 || len(got) > 11 {
			t.Errorf("woken for 500 jobs: got %d workers, want as many as have 500 slots, fullest first", len(got))
		}
	})
}

// Guard: fullest first, and a hint goes to no more workers than its jobs need.
func TestTheFullestWorkersAreWokenFirstAndToldTheirShare(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		b := coord.New(rdb, patient(ns))
		all := listenToAll(t, rdb, ns)
		for worker, free := range map[string]int{"one": 1, "five": 5, "three": 3, "ten": 10} {
			must(t, b.Register(t.Context(), worker, coord.Idle{Queue: "q", Free: free}))
		}
		// Guard `score`: the claim took slots, so another is the fullest now.
		must(t, b.Register(t.Context(), "ten", coord.Idle{Queue: "q", Free: 2}))
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q", Count: 7}))
		got := all.take(t)
		if names(got) != "five three" {
			t.Fatalf("woken: got %q, want %q", names(got), "five three")
		}
		for i, want := range []string{"h5 ", "h2 "} {
			if !strings.HasPrefix(got[i].message, want) {
				t.Errorf("share of %s: got %q, want it to begin with %q", got[i].worker, got[i].message, want)
			}
		}
		must(t, b.Register(t.Context(), "ten", coord.Idle{Queue: "q", Free: 0}))
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q", Count: 100}))
		if got := names(all.take(t)); got != "one" {
			t.Errorf("woken: got %q, want only the worker with a free slot left", got)
		}
	})
}

// Guard `receivers`: without it the hint goes to a dead worker and is gone.
func TestAWorkerThatNobodyListensForIsPassedOver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		alive := listen(t, b, "alive")
		must(t, b.Register(t.Context(), "dead", coord.Idle{Queue: "q", Free: 90}))
		must(t, b.Register(t.Context(), "gone", coord.Idle{Queue: "q", Free: 80}))
		must(t, b.Register(t.Context(), "alive", coord.Idle{Queue: "q", Free: 1}))
		due := time.UnixMicro(1_790_000_000_123_456).UTC()
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q", Kind: "k", Count: 1, ReadyAt: due}))
		h := wait(t, alive.hints, "the hint, at the worker that lives")
		if h.Queue != "q" || h.Kind != "k" || h.Count != 1 || !h.ReadyAt.Equal(due) || h.Hops != 0 {
			t.Errorf("hint: got %+v", h)
		}
		if s := b.Stats(); s.HintsUnheard != 2 || s.HintsSent != 1 || s.HintsHeard != 1 {
			t.Errorf("stats: got %+v, want 2 unheard, 1 sent, 1 heard", s)
		}
	})
}

// Guards `fullForward` and `leaveFirst`: one script, in which the worker leaves before another is woken.
func TestLeavingWakesAnotherInTheSameScript(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		counted := &countingClient{UniversalClient: rdb}
		b := coord.New(counted, patient(ns))
		all := listenToAll(t, rdb, ns)
		full := coord.Hint{Queue: "q", Count: 1}
		register := func(worker string, free int) {
			must(t, b.Register(t.Context(), worker, coord.Idle{Queue: "q", Free: free}, coord.Idle{Queue: "r", Free: free}))
		}
		register("full", 50)
		must(t, b.Leave(t.Context(), "full", []string{"q", "r"}, full))
		if got := all.take(t); len(got) != 0 {
			t.Errorf("a worker that left alone woke %q, want nobody", names(got))
		}
		register("full", 50)
		register("other", 1)
		register("third", 2)
		before := counted.n.Load()
		must(t, b.Leave(t.Context(), "full", []string{"q", "r"}, full))
		if n := counted.n.Load() - before; n != 1 {
			t.Errorf("commands: got %d, want 1", n)
		}
		if got := names(all.take(t)); got != "third" {
			t.Errorf("woken: got %q, want the fullest of the others", got)
		}
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "r", Count: 1000}))
		if got := names(all.take(t)); got != "third other" {
			t.Errorf("idle in the second queue: got %q, want all but the worker that left", got)
		}
	})
}

// Guard `silent`: a worker that stands still with many free slots swallows a hint for as long as it stands in the idle set.
// Jobs announced again wake the next one too.
func TestJobsAnnouncedAgainDoNotRelyOnAWorkerThatHasNotAnswered(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		b := coord.New(rdb, patient(ns))
		all := listenToAll(t, rdb, ns)
		again := coord.Hint{Queue: "q", Again: true}
		must(t, b.Register(t.Context(), "frozen", coord.Idle{Queue: "q", Free: 1000}))
		must(t, b.Register(t.Context(), "other", coord.Idle{Queue: "q", Free: 10}))
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
		if got := names(all.take(t)); got != "frozen" {
			t.Fatalf("woken: got %q, want the fullest", got)
		}
		must(t, b.Wake(t.Context(), again))
		if got := names(all.take(t)); got != "frozen other" {
			t.Errorf("woken for a job announced again: got %q, want the silent worker and the next", got)
		}
		must(t, b.Wake(t.Context(), again))
		if got := names(all.take(t)); got != "" {
			t.Errorf("woken once more: got %q, want nobody: both have left the set", got)
		}
		must(t, b.Register(t.Context(), "frozen", coord.Idle{Queue: "q", Free: 1000}))
		must(t, b.Wake(t.Context(), again))
		if got := names(all.take(t)); got != "frozen" {
			t.Errorf("woken: got %q, want the worker that has answered, alone", got)
		}
	})
}

// A worker that is woken for less than it has free needs no round trip before its claim; one that is woken for all of it is out
// of the set, and both are told.
func TestAWorkerWithSlotsLeftStaysInTheIdleSet(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		l := listen(t, b, "w")
		must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 10}))
		for _, stays := range []bool{true, true, false} { // 10 free, then 4, then 1
			must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
			if h := wait(t, l.hints, "hint"); h.Stays != stays || h.Count != 1 {
				t.Errorf("hint %+v, want it to stay: %v", h, stays)
			}
		}
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
		must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 10}))
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q", Count: 10}))
		if h := wait(t, l.hints, "hint"); h.Stays || h.Count != 10 {
			t.Errorf("woken for all of its slots: %+v", h)
		}
		if len(l.hints) != 0 {
			t.Error("it was woken while it stood in no set")
		}
	})
}

// Guards `kindForward`, `busyForward`: a hint passed on does not come back to the one who passed it.
func TestAPassedOnHintGoesToAnotherWorker(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		old, fresh := listen(t, b, "old"), listen(t, b, "new")
		must(t, b.Register(t.Context(), "old", coord.Idle{Queue: "q", Free: 50}))
		must(t, b.Register(t.Context(), "new", coord.Idle{Queue: "q", Free: 1}))
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q", Kind: "unknown to the old one"}))
		h := wait(t, old.hints, "the hint, at the fullest")
		must(t, b.Register(t.Context(), "old", coord.Idle{Queue: "q", Free: 50})) // it registers before it claims
		must(t, b.Forward(t.Context(), h))
		if got := wait(t, fresh.hints, "the hint, passed on"); got.Hops != 1 || got.Kind != h.Kind {
			t.Errorf("hint: got %+v, want 1 hop and kind %q", got, h.Kind)
		}
		must(t, b.Forward(t.Context(), h)) // nobody is left but the sender
		if len(old.hints)+len(fresh.hints) != 0 {
			t.Error("a hint was passed on to its sender")
		}
	})
}

// Two fullest workers that do not know a kind must not throw its hint at each other until it is exhausted.
func TestAPassedOnHintFindsAWorkerThatIsNotTheFullest(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		b := coord.New(rdb, patient(ns))
		all := listenToAll(t, rdb, ns)
		for range 200 {
			must(t, b.Register(t.Context(), "fullest", coord.Idle{Queue: "q", Free: 50}))
			must(t, b.Register(t.Context(), "small", coord.Idle{Queue: "q", Free: 1}))
			must(t, b.Forward(t.Context(), coord.Hint{Queue: "q", Hops: 1}))
			if names(all.take(t)) == "small" {
				return
			}
		}
		t.Error("200 passed-on hints all went to the fullest worker")
	})
}

func TestAHintIsGivenUpAfterSixteenHops(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		ping, pong := listen(t, b, "ping"), listen(t, b, "pong")
		must(t, b.Register(t.Context(), "ping", coord.Idle{Queue: "q", Free: 1}))
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
		here, there := ping, pong
		for hop := range coord.MaxHops {
			h := wait(t, here.hints, fmt.Sprintf("the hint after %d hops", hop))
			if h.Hops != hop {
				t.Fatalf("hops: got %d, want %d", h.Hops, hop)
			}
			for _, worker := range []string{"ping", "pong"} {
				must(t, b.Register(t.Context(), worker, coord.Idle{Queue: "q", Free: 1}))
			}
			must(t, b.Forward(t.Context(), h))
			here, there = there, here
		}
		if s := b.Stats(); s.HintsExhausted != 1 || len(ping.hints)+len(pong.hints) != 0 {
			t.Errorf("exhausted: got %d, want 1; %d hints are still under way", s.HintsExhausted, len(ping.hints)+len(pong.hints))
		}
		_ = there
	})
}

// Guard `closeForward`: what a closing worker was told reaches another.
func TestAClosingWorkerPassesItsHintsOn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		closing, other := listen(t, b, "closing"), listen(t, b, "other")
		must(t, b.Register(t.Context(), "closing", coord.Idle{Queue: "q", Free: 9}))
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q", Count: 4}))
		h := wait(t, closing.hints, "the hint")
		must(t, b.Register(t.Context(), "closing", coord.Idle{Queue: "q", Free: 9}))
		must(t, b.Register(t.Context(), "other", coord.Idle{Queue: "q", Free: 5}))
		must(t, b.Leave(t.Context(), "closing", []string{"q"}, h))
		if got := wait(t, other.hints, "the hint, passed on"); got.Count != 4 || got.Hops != 1 {
			t.Errorf("hint: got %+v, want all 4 jobs after 1 hop", got)
		}
		if len(closing.hints) != 0 {
			t.Error("the closing worker woke itself")
		}
	})
}

func TestManyQueuesCostOneRoundTrip(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		counted := &countingClient{UniversalClient: rdb}
		b := coord.New(counted, patient(ns))
		all := listenToAll(t, rdb, ns)
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "load the script"}))
		var hints []coord.Hint
		for i := range 100 {
			queue := fmt.Sprintf("q%d", i)
			must(t, b.Register(t.Context(), "of "+queue, coord.Idle{Queue: queue, Free: 20}))
			hints = append(hints, coord.Hint{Queue: queue, Kind: "a", Count: 2}, coord.Hint{Queue: queue, Kind: "b", Count: 3},
				coord.Hint{Queue: queue, Kind: "a", Count: 1})
		}
		before := counted.n.Load()
		must(t, b.Wake(t.Context(), hints...))
		if n := counted.n.Load() - before; n != 1 {
			t.Errorf("commands for 100 queues: got %d, want 1", n)
		}
		got := all.take(t)
		if len(got) != 200 {
			t.Fatalf("messages: got %d, want one for each queue and kind", len(got))
		}
		if got[0].worker != got[1].worker || !strings.HasPrefix(got[0].message+got[1].message, "h3+ ") {
			t.Errorf("two kinds of one queue: got %q, want both at one worker, equal kinds added up", got[:2])
		}
	})
}

// countingClient counts the scripts that are run.
type countingClient struct {
	redis.UniversalClient
	n atomic.Int64
}

func (c *countingClient) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	c.n.Add(1)
	return c.UniversalClient.EvalSha(ctx, sha, keys, args...)
}
