package coord_test

import (
	"fmt"
	"testing"

	"github.com/weirq/weir/pkg/coord"
)

// BenchmarkWake wakes one of 1,000 idle workers, which then registers again: two round trips an operation.
func BenchmarkWake(b *testing.B) {
	rdb := real(b)
	ns := newNamespace()
	bus := coord.New(rdb, patient(ns))
	sub := rdb.PSubscribe(b.Context(), "{"+ns+"}:1:worker:*")
	defer sub.Close()
	_, err := sub.Receive(b.Context())
	must(b, err)
	for i := range 1000 {
		must(b, bus.Register(b.Context(), fmt.Sprintf("w%d", i), coord.Idle{Queue: "q", Free: 1 + i%50}))
	}
	for b.Loop() {
		must(b, bus.Wake(b.Context(), coord.Hint{Queue: "q", Kind: "mail.welcome", Count: 1}))
		must(b, bus.Register(b.Context(), "again", coord.Idle{Queue: "q", Free: 100}))
	}
}

// BenchmarkWakeNobody is the hint of a busy fleet: no worker is idle.
func BenchmarkWakeNobody(b *testing.B) {
	bus := coord.New(real(b), patient(newNamespace()))
	for b.Loop() {
		must(b, bus.Wake(b.Context(), coord.Hint{Queue: "q", Kind: "mail.welcome", Count: 1}))
	}
}

// BenchmarkWakeBreakerOpen is the cost of a dead Redis.
func BenchmarkWakeBreakerOpen(b *testing.B) {
	bus := coord.New(dial(b, "127.0.0.1:1"), coord.Config{})
	for bus.Healthy() {
		_ = bus.Wake(b.Context(), coord.Hint{Queue: "q"})
	}
	for b.Loop() {
		_ = bus.Wake(b.Context(), coord.Hint{Queue: "q", Kind: "mail.welcome", Count: 1})
	}
}
