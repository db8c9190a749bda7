package coord

// White-box: the echo comes only every ten seconds, and a breaker waits seconds only after a long outage: too long for a
// test. The hash tag shows only in a cluster of several nodes.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

func TestAnEchoThatNobodyHearsEndsTheSubscription(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()
	b := New(rdb, Config{})
	l := &listener{channels: []string{b.keys.worker("w")}}
	if err := b.echo(t.Context(), l); !errors.Is(err, errUnheard) {
		t.Errorf("without a subscription: got %v, want errUnheard", err)
	}
	sub := rdb.Subscribe(t.Context(), l.channels[0])
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.echo(t.Context(), l); err != nil {
		t.Errorf("with a subscription: got %v, want nil", err)
	}
	m.SetError("LOADING")
	if err := b.echo(t.Context(), l); err != nil {
		t.Errorf("an error says nothing about the subscription: got %v, want nil", err)
	}
}

// Otherwise a worker that is back would stand in no idle set until its next poll.
func TestASubscriptionTellsTheBreakerThatTheServerIsBack(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer rdb.Close()
	b := New(rdb, Config{Timeout: 5 * time.Second})
	for range maxFailures {
		b.breaker.settle(time.Now().Add(time.Hour), false, unavailable) // as if it had just opened for an hour
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	_ = b.Run(ctx, "w", Receiver{OnSubscribed: func() {
		err = b.Register(ctx, "w", Idle{Queue: "q", Free: 1})
		cancel()
	}})
	if err != nil {
		t.Errorf("register at the subscription: got %v, want nil", err)
	}
}

func TestAllKeysOfANamespaceShareOneHashTag(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, namespace := range []string{"weir", "a}", "a{", "}", "{", "{}", "a%7D", "%", "a:1:idle"} {
		k := newKeys(namespace)
		tag, _, ok := strings.Cut(strings.TrimPrefix(k.prefix, "{"), "}")
		if !ok || tag == "" {
			t.Errorf("namespace %q has no hash tag: %s", namespace, k.prefix)
		}
		if other, ok := seen[tag]; ok {
			t.Errorf("namespaces %q and %q share the tag %q", namespace, other, tag)
		}
		seen[tag] = namespace
		for _, key := range []string{k.idle("}q{"), k.probe(), k.worker("}w{"), k.control()} {
			if !strings.HasPrefix(key, "{"+tag+"}:1:") {
				t.Errorf("key %s lacks the tag %q", key, tag)
			}
		}
	}
}
