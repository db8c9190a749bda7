package coord

// White-box: the breaker takes time as an argument, so that its timing is tested without any.

import (
	"testing"
	"time"
)

func TestTheBreakerOpensAfterThreeFailuresInARow(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	for range 5 { // a success between them starts the count anew
		b.settle(now, false, unavailable)
		b.settle(now, false, unavailable)
		b.settle(now, false, answered)
	}
	if _, ok := b.allow(now); !ok {
		t.Fatal("open after failures that were not in a row")
	}
	b.settle(now, false, unavailable)
	b.settle(now, false, unavailable)
	if got := b.settle(now, false, unavailable); got != opened {
		t.Fatalf("third failure: got %v, want opened", got)
	}
	if _, ok := b.allow(now); ok {
		t.Error("a command is let through right after the breaker opened")
	}
	if isClosed, opens := b.state(); isClosed || opens != 1 {
		t.Errorf("state: closed %v after %d openings, want open after 1", isClosed, opens)
	}
}

func TestTheBreakerWaitsJitteredFrom250msTo5s(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	for range 3 {
		b.settle(now, false, unavailable)
	}
	spread := map[time.Duration]bool{}
	for want := minOpen; ; want = min(2*want, maxOpen) {
		wait := b.until.Sub(now)
		if wait < want/2 || wait > want {
			t.Errorf("wait: got %v, want between %v and %v", wait, want/2, want)
		}
		spread[wait*1000/want] = true
		if _, ok := b.allow(b.until.Add(-1)); ok {
			t.Fatal("a probe before its time")
		}
		if want == maxOpen && len(spread) > 8 {
			break
		}
		now = b.until
		if probe, ok := b.allow(now); !ok || !probe {
			t.Fatal("no probe when its time has come")
		}
		if _, ok := b.allow(now); ok {
			t.Fatal("two probes at a time")
		}
		b.settle(now, true, unavailable)
	}
}

func TestAProbeThatIsAnsweredClosesTheBreaker(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	for range 3 {
		b.settle(now, false, unavailable)
	}
	b.settle(now, false, answered) // left before the breaker opened: says nothing about now
	if _, ok := b.allow(now); ok {
		t.Fatal("an answer from before closed the breaker")
	}
	b.hurry(now)
	probe, ok := b.allow(now)
	if !probe || !ok {
		t.Fatal("no probe although there is news")
	}
	if got := b.settle(now, probe, answered); got != closed {
		t.Fatalf("probe answered: got %v, want closed", got)
	}
	for range 2 {
		b.settle(now, false, unavailable)
	}
	if probe, ok := b.allow(now); probe || !ok {
		t.Error("two failures after closing: the breaker must count from zero")
	}
}
