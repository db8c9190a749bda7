package coord_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/coord"
)

// hear registers the worker and wakes it until a hint comes through: while Redis is coming back commands may still fail.
func hear(t testing.TB, b *coord.Bus, p *process, worker string, limit time.Duration) {
	t.Helper()
	eventually(t, limit, "a hint that is heard", func() bool {
		_ = b.Register(t.Context(), worker, coord.Idle{Queue: "q", Free: 1})
		_ = b.Wake(t.Context(), coord.Hint{Queue: "q"})
		select {
		case <-p.hints:
			return true
		case <-time.After(5 * time.Millisecond):
			return false
		}
	})
}

func TestHintsFlowAgainAfterTheServerRestarts(t *testing.T) {
	t.Parallel()
	s := private(t)
	b := coord.New(dial(t, s.addr), coord.Config{})
	p := listen(t, b, "w")
	hear(t, b, p, "w", 5*time.Second)
	s.stop()
	eventually(t, 5*time.Second, "the loss is noticed", func() bool { return !b.Healthy() && b.Stats().Subscribed == 0 })
	must(t, s.start())
	wait(t, p.stands, "OnSubscribed once more")
	hear(t, b, p, "w", 5*time.Second)
	eventually(t, time.Second, "healthy again", b.Healthy)
}

func TestASubscriptionThatIsKilledIsMadeAnew(t *testing.T) {
	t.Parallel()
	s := private(t)
	rdb := dial(t, s.addr)
	b := coord.New(rdb, patient("weir"))
	p := listen(t, b, "w")
	for range 3 {
		must(t, rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
		wait(t, p.stands, "OnSubscribed once more")
		hear(t, b, p, "w", 5*time.Second)
	}
}

// Guard `reregister`.
func TestAFlushedServerIsHealedByTheNextRegister(t *testing.T) {
	t.Parallel()
	s := private(t)
	rdb := dial(t, s.addr)
	b := coord.New(rdb, patient("weir"))
	p := listen(t, b, "w")
	must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 1}))
	must(t, rdb.FlushAll(t.Context()).Err())
	must(t, rdb.ScriptFlush(t.Context()).Err())
	must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
	must(t, b.Publish(t.Context(), coord.Control{Verb: "after"}))
	wait(t, p.controls, "what was published after the hint")
	if len(p.hints) != 0 {
		t.Fatal("a worker was woken from an empty set")
	}
	must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 1}))
	must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
	wait(t, p.hints, "the hint")
}

func TestAHalfOpenConnectionIsNoticedWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	rdb := real(t)
	ns := newNamespace()
	hop := testenv.NewProxy(t, rdb.Options().Addr)
	b := coord.New(dial(t, hop.Addr()), coord.Config{Namespace: ns})
	p := listen(t, b, "w")
	hop.Silence(true)
	began := time.Now()
	eventually(t, 6*time.Second, "the silence is noticed", func() bool { return b.Stats().Subscribed == 0 })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("noticed after %v, want at most 5s", took)
	}
	began = time.Now()
	for range 20 { // the breaker opens; nobody waits for long
		_ = b.Wake(t.Context(), coord.Hint{Queue: "q"})
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("20 commands to a silent server took %v", took)
	}
	hop.Silence(false)
	wait(t, p.stands, "OnSubscribed once more")
	hear(t, b, p, "w", 5*time.Second)
}

func TestAQuietSubscriptionIsKept(t *testing.T) {
	t.Parallel()
	b := coord.New(real(t), patient(newNamespace()))
	p := listen(t, b, "w")
	select {
	case <-p.stands:
		t.Error("subscribed again although nothing was wrong")
	case <-time.After(5 * time.Second): // two pings and more
	}
	hear(t, b, p, "w", time.Second)
}

func TestACallbackThatPanicsDoesNotEndTheLoop(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int64
		done := make(chan error, 1)
		go func() {
			done <- b.Run(ctx, "w", coord.Receiver{
				OnHint:       func(coord.Hint) { calls.Add(1); panic("hint") },
				OnControl:    func(coord.Control) { calls.Add(1); panic("control") },
				OnSubscribed: func() { calls.Add(1); panic("subscribed") },
			})
		}()
		eventually(t, 5*time.Second, "a subscription", func() bool { return b.Stats().Subscriptions == 1 })
		for range 3 {
			must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 1}))
			must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
			must(t, b.Publish(t.Context(), coord.Control{Verb: "cancel", ID: "1"}))
		}
		eventually(t, 5*time.Second, "seven calls", func() bool { return calls.Load() == 7 })
		cancel()
		if err := wait(t, done, "the end of Run"); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		if s := b.Stats(); s.Panics != 7 || s.Subscriptions != 1 || s.Running != 0 {
			t.Errorf("stats: got %+v, want 7 panics in one subscription, none running", s)
		}
	})
}

// A receiver that is busy for seconds loses nothing and is not taken for a dead connection (B76).
func TestASlowCallbackLosesNothing(t *testing.T) {
	t.Parallel()
	ns := newNamespace()
	rdb := real(t)
	b := coord.New(rdb, patient(ns))
	release := make(chan struct{})
	var heard, stands atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Run(ctx, "", coord.Receiver{
			OnControl:    func(coord.Control) { <-release; heard.Add(1) },
			OnSubscribed: func() { stands.Add(1) },
		})
	}()
	eventually(t, 5*time.Second, "a subscription", func() bool { return stands.Load() == 1 })
	pipe := rdb.Pipeline()
	const messages = 50_000
	for range messages {
		pipe.Publish(t.Context(), "{"+ns+"}:1:control", "c6 2 0 0 cancel42"+strings.Repeat(" ", 100))
	}
	_, err := pipe.Exec(t.Context())
	must(t, err)
	time.AfterFunc(3*time.Second, func() { close(release) }) // longer than a silent connection is given
	eventually(t, 20*time.Second, "all messages", func() bool { return heard.Load() == messages })
	if n := stands.Load(); n != 1 {
		t.Errorf("subscriptions: got %d, want 1", n)
	}
	cancel()
	<-done
}

func TestAProcessThatIsNoWorkerHearsControlOnly(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		sweeper, worker := listen(t, b, ""), listen(t, b, "w")
		want := coord.Control{Verb: "resume", Queue: "mail", Kind: "k", ID: "01JDX3K8Q7"}
		must(t, b.Publish(t.Context(), want))
		for name, p := range map[string]*process{"sweeper": sweeper, "worker": worker} {
			if got := wait(t, p.controls, "the message at the "+name); got != want {
				t.Errorf("%s: got %+v, want %+v", name, got, want)
			}
		}
		hear(t, b, worker, "w", time.Second)
		if len(sweeper.hints) != 0 {
			t.Error("a process that is no worker heard a hint")
		}
	})
}

func TestMessagesThatCannotBeReadAreSkipped(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		b := coord.New(rdb, patient(ns))
		p := listen(t, b, "w")
		for _, message := range []string{"", "h", "h1 0  9 9 x", "c", "c1 1 1 1 x", "x later"} {
			must(t, rdb.Publish(t.Context(), "{"+ns+"}:1:worker:w", message).Err())
		}
		hear(t, b, p, "w", time.Second)
		if s := b.Stats(); s.Garbled != 6 || s.HintsHeard != 1 {
			t.Errorf("stats: got %+v, want 6 garbled and 1 heard", s)
		}
	})
}

func TestRunEndsAtOnceWithItsContext(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]string{"connected": real(t).Options().Addr, "refused": "127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := coord.New(dial(t, addr), patient(newNamespace()))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- b.Run(ctx, "w", coord.Receiver{}) }()
			eventually(t, 5*time.Second, "Run is under way", func() bool {
				return b.Stats().Running == 1 && (b.Stats().Subscribed == 1 || name == "refused")
			})
			began := time.Now()
			cancel()
			if err := wait(t, done, "the end of Run"); err != nil {
				t.Errorf("Run: got %v, want nil", err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("Run took %v to end", took)
			}
		})
	}
}
