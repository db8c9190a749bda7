package worker

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/coord"
)

// A worker with a free slot keeps a hint for itself. When a job that was handed over has taken that slot before the next
// claim, another worker must be told, or the hint's job waits for the sweeper beside a worker that sleeps (`fullForward`).
func TestAHintWhoseSlotWasHandedOverGoesToAnother(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	w, err := New(hinted(t, server.Addr()), Config{Queues: []Queue{{Name: "default", Slots: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	other := coord.New(rdb, coord.Config{Namespace: w.client.Namespace(), Timeout: 2 * time.Second})
	heard, subscribed := make(chan coord.Hint, 1), make(chan bool, 1)
	go func() {
		_ = other.Run(t.Context(), "other", coord.Receiver{
			OnHint: func(h coord.Hint) { heard <- h }, OnSubscribed: func() { subscribed <- true },
		})
	}()
	<-subscribed
	if err := other.Register(t.Context(), "other", coord.Idle{Queue: "default", Free: 5}); err != nil {
		t.Fatal(err)
	}
	due := time.UnixMicro(1_790_000_000_000_000).UTC()
	w.onHint(coord.Hint{Queue: "default", Count: 1, ReadyAt: due})
	w.disp.oweTaken(t.Context(), []int{1})
	select {
	case h := <-heard:
		t.Fatalf("the other worker heard %+v though the slot is free", h)
	case <-time.After(50 * time.Millisecond):
	}
	w.onHint(coord.Hint{Queue: "default", Count: 1, ReadyAt: due})
	if n := w.lanes.hold("default", 1); n != 1 {
		t.Fatalf("kept %d slots", n)
	}
	w.disp.passedOn = time.Now() // the last one is a moment ago: this one does not wait for it
	w.disp.oweTaken(t.Context(), []int{0})
	select {
	case h := <-heard:
		if h.Queue != "default" || !h.ReadyAt.Equal(due) {
			t.Errorf("heard %+v", h)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("nobody was told")
	}
}
