package coord

// White-box: the echo comes only every ten seconds, too long for a test to wait.

import (
	"errors"
	"testing"

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
