package coord_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/coord"
)

// oddNames hold what breaks keys that are joined with separators, patterns and hash tags (B10).
var oddNames = []string{
	"", "a", "b", "a:b", "b:a", ":", "a:", ":a", "{x}", "a{b", "}", "{}", "*", "?", "[a]", `\`, "a\nb", "a b", " ", "5 3 x", "é",
	"e\u0301", "🙂", "https://h/p?x=1", "\x00", "\xff\xfe", "%7D", "worker:a", "control", "idle:a", "1:idle:a", strings.Repeat("q", 128),
}

func TestOddNamesNeverShareAKeyOrAMessage(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		b := coord.New(rdb, patient(ns))
		p := listen(t, b, "odd{}:*\n🙂")
		all := listenToAll(t, rdb, ns)
		for _, queue := range oddNames {
			must(t, b.Register(t.Context(), "of "+queue, coord.Idle{Queue: queue, Free: 1}))
		}
		for i, queue := range oddNames {
			kind := oddNames[len(oddNames)-1-i]
			must(t, b.Wake(t.Context(), coord.Hint{Queue: queue, Kind: kind}))
			if got := names(all.take(t)); got != "of "+queue {
				t.Errorf("queue %q woke %q", queue, got)
			}
			must(t, b.Register(t.Context(), "odd{}:*\n🙂", coord.Idle{Queue: queue, Free: 1}))
			must(t, b.Wake(t.Context(), coord.Hint{Queue: queue, Kind: kind}))
			all.take(t)
			h := wait(t, p.hints, "the hint")
			if h.Queue != queue || h.Kind != kind && len(queue)+len(kind) < 150 {
				t.Errorf("hint: got queue %q kind %q, want %q and %q", h.Queue, h.Kind, queue, kind)
			}
			must(t, b.Publish(t.Context(), coord.Control{Verb: "pause", Queue: queue, Kind: kind, ID: queue[:min(40, len(queue))]}))
			c := wait(t, p.controls, "the control message")
			if c.Verb != "pause" || c.Queue != queue || c.Kind != kind && len(queue)+len(kind) < 100 {
				t.Errorf("control: got %+v, want queue %q kind %q", c, queue, kind)
			}
		}
	})
}

func TestNamespacesDoNotHearEachOther(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		base := newNamespace()
		spaces := []string{base, base + "}", base + "}:1", base + "{", base + "%7D", base + ":1:idle", "}" + base, "{" + base + "}"}
		var all []*process
		for _, ns := range spaces {
			b := coord.New(rdb, patient(ns))
			all = append(all, listen(t, b, "w"))
			must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 9}))
		}
		for i, ns := range spaces {
			must(t, coord.New(rdb, patient(ns)).Wake(t.Context(), coord.Hint{Queue: "q"}))
			wait(t, all[i].hints, "the hint of its own namespace "+ns)
			for j := range all {
				if n := len(all[j].hints); n != 0 {
					t.Errorf("a hint of %q reached %q", ns, spaces[j])
				}
			}
		}
	})
}

func TestAMessageStaysBelow200Bytes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		b := coord.New(rdb, patient(ns))
		all := listenToAll(t, rdb, ns)
		control := rdb.Subscribe(t.Context(), "{"+ns+"}:1:control")
		defer control.Close()
		_, err := control.Receive(t.Context())
		must(t, err)
		long := strings.Repeat("é", 64)
		for _, kind := range []string{"k", long[:40], long} {
			must(t, b.Register(t.Context(), "w", coord.Idle{Queue: long, Free: 1 << 30}))
			h := coord.Hint{Queue: long, Kind: kind, Count: 1 << 40, Hops: 15, ReadyAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
			must(t, b.Wake(t.Context(), h))
			got := all.take(t)
			if len(got) != 1 || len(got[0].message) >= 200 {
				t.Errorf("hint with a kind of %d bytes: got %d messages, %q", len(kind), len(got), got)
			}
			must(t, b.Publish(t.Context(), coord.Control{Verb: strings.Repeat("v", 16), Queue: long, Kind: kind, ID: long[:40]}))
			m, err := control.ReceiveMessage(t.Context())
			must(t, err)
			if len(m.Payload) >= 200 {
				t.Errorf("control message: got %d bytes", len(m.Payload))
			}
		}
	})
}

func TestEveryKeyExpires(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		b := coord.New(rdb, patient(ns))
		for _, w := range []string{"a", "b", "c"} {
			must(t, b.Register(t.Context(), w, coord.Idle{Queue: "q", Free: 2}, coord.Idle{Queue: "r", Free: 1}))
		}
		must(t, b.Leave(t.Context(), "a", []string{"q"}, coord.Hint{Queue: "r"}))
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
		all, err := rdb.Keys(t.Context(), "{"+ns+"}*").Result()
		must(t, err)
		if len(all) == 0 {
			t.Error("no key is left to look at")
		}
		for _, key := range all {
			if ttl := rdb.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > 2*time.Minute {
				t.Errorf("expiry of %s: got %v, want at most 2m", key, ttl)
			}
		}
	})
}

func TestNamesThatAreTooLongAreRefused(t *testing.T) {
	t.Parallel()
	b := coord.New(dial(t, "127.0.0.1:1"), coord.Config{})
	long := strings.Repeat("x", 129)
	for name, err := range map[string]error{
		"wake":               b.Wake(t.Context(), coord.Hint{Queue: long}),
		"leave":              b.Leave(t.Context(), "w", nil, coord.Hint{Queue: long}),
		"register":           b.Register(t.Context(), "w", coord.Idle{Queue: long}),
		"register nobody":    b.Register(t.Context(), "", coord.Idle{Queue: "q"}),
		"publish no verb":    b.Publish(t.Context(), coord.Control{}),
		"publish long verb":  b.Publish(t.Context(), coord.Control{Verb: long}),
		"publish long queue": b.Publish(t.Context(), coord.Control{Verb: "v", Queue: long}),
		"publish long id":    b.Publish(t.Context(), coord.Control{Verb: "v", ID: long}),
	} {
		if err == nil || errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("%s: got error %v, want a refusal before Redis is asked", name, err)
		}
	}
}

func TestABusWithoutRedisDoesNothing(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*coord.Bus{
		"nil":           coord.New(nil, coord.Config{}),
		"typed nil":     coord.New((*redis.Client)(nil), coord.Config{}),
		"typed cluster": coord.New((*redis.ClusterClient)(nil), coord.Config{}),
	} {
		if b.Enabled() || b.Healthy() {
			t.Errorf("%s: enabled %v, healthy %v, want neither", name, b.Enabled(), b.Healthy())
		}
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
		must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 1}))
		must(t, b.Leave(t.Context(), "w", []string{"q"}, coord.Hint{Queue: "q"}))
		must(t, b.Forward(t.Context(), coord.Hint{Queue: "q"}))
		must(t, b.Publish(t.Context(), coord.Control{Verb: "pause"}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, b.Run(ctx, "w", coord.Receiver{}))
	}
}

func TestTheCallersClientKeepsItsOptions(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: 3000, ReadTimeout: 7 * time.Second})
	defer rdb.Close()
	coord.New(rdb, coord.Config{})
	if o := rdb.Options(); o.MaxRetries != 3000 || o.ReadTimeout != 7*time.Second || o.ContextTimeoutEnabled {
		t.Errorf("options after New: retries %d, read timeout %v, context timeouts %v", o.MaxRetries, o.ReadTimeout, o.ContextTimeoutEnabled)
	}
}
