package coord_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/coord"
)

// ears hear what is published to all workers of a namespace, so that one connection can stand for a thousand workers.
type ears struct {
	rdb    *redis.Client
	sub    *redis.PubSub
	prefix string
}

type heard struct{ worker, message string }

func listenToAll(t testing.TB, rdb *redis.Client, namespace string) *ears {
	t.Helper()
	prefix := "{" + namespace + "}:1:worker:" // part of the protocol, hence written out
	sub := rdb.PSubscribe(t.Context(), prefix+"*")
	t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(t.Context())
	must(t, err)
	return &ears{rdb: rdb, sub: sub, prefix: prefix}
}

// take returns all messages published until now: they precede one that it publishes itself.
func (e *ears) take(t testing.TB) []heard {
	t.Helper()
	must(t, e.rdb.Publish(t.Context(), e.prefix+"last", "").Err())
	var all []heard
	for {
		m, err := e.sub.ReceiveMessage(t.Context())
		must(t, err)
		worker := strings.TrimPrefix(m.Channel, e.prefix)
		if worker == "last" {
			return all
		}
		all = append(all, heard{worker, m.Payload})
	}
}

func names(all []heard) string {
	var out []string
	for _, h := range all {
		out = append(out, h.worker)
	}
	return strings.Join(out, " ")
}

// process is a worker that only listens.
type process struct {
	hints    chan coord.Hint
	controls chan coord.Control
	stands   chan struct{}
	done     chan struct{}
	cancel   context.CancelFunc
}

// listen runs a bus until the end of the test and waits for its first subscription.
func listen(t testing.TB, b *coord.Bus, worker string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		hints:    make(chan coord.Hint, 1000),
		controls: make(chan coord.Control, 1000),
		stands:   make(chan struct{}, 1000),
		done:     make(chan struct{}),
		cancel:   cancel,
	}
	go func() {
		defer close(p.done)
		_ = b.Run(ctx, worker, coord.Receiver{
			OnHint:       func(h coord.Hint) { p.hints <- h },
			OnControl:    func(c coord.Control) { p.controls <- c },
			OnSubscribed: func() { p.stands <- struct{}{} },
		})
	}()
	t.Cleanup(p.stop)
	wait(t, p.stands, "the first subscription")
	return p
}

func (p *process) stop() {
	p.cancel()
	<-p.done
}

// wait takes the next value of a channel.
func wait[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(15 * time.Second):
		t.Fatalf("never came: %s", what)
		panic("unreachable")
	}
}
