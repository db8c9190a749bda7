package coord_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/coord"
)

func TestADeadRedisCostsMicroseconds(t *testing.T) {
	t.Parallel()
	rdb := dial(t, "127.0.0.1:1")
	b := coord.New(rdb, coord.Config{})
	began := time.Now()
	for b.Healthy() {
		if err := b.Wake(t.Context(), coord.Hint{Queue: "q"}); !errors.Is(err, coord.ErrUnavailable) {
			t.Fatalf("error: got %v, want ErrUnavailable", err)
		}
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("the breaker took %v to open, want about three timeouts of 100ms", took)
	}
	began = time.Now()
	refused := b.Stats().Refused
	for b.Stats().Refused-refused < 1000 && time.Since(began) < 5*time.Second {
		_ = b.Wake(t.Context(), coord.Hint{Queue: "q"})
	}
	if took := time.Since(began); took > time.Second { // one probe may be among them
		t.Errorf("1,000 refused commands took %v", took)
	}
}

// B83: blackholed, with thousands of retries configured: bounded waits, bounded goroutines, quick return.
func TestALongSilenceHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	target := real(t).Options().Addr
	for name, c := range map[string]struct {
		wrap func(*redis.Client) redis.UniversalClient
		back time.Duration
	}{
		// The longest wait of the breaker.
		"a client that is tuned": {func(c *redis.Client) redis.UniversalClient { return c }, 6 * time.Second},
		// Its connections wait for 3s of their own, so that one more probe may fail.
		"a client that cannot be tuned": {func(c *redis.Client) redis.UniversalClient { return opaque{c} }, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hop := testenv.NewProxy(t, target)
			rdb := redis.NewClient(&redis.Options{Addr: hop.Addr(), MaxRetries: 3000})
			t.Cleanup(func() { _ = rdb.Close() })
			b := coord.New(c.wrap(rdb), coord.Config{Namespace: newNamespace()})
			must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
			hop.Silence(true)
			sendToSilence(t, b)
			hop.Silence(false)
			eventually(t, c.back, "commands get through again", func() bool {
				return b.Wake(t.Context(), coord.Hint{Queue: "q"}) == nil
			})
		})
	}
}

// sendToSilence sends from 50 callers and checks that none waits for long and that goroutines stay bounded.
func sendToSilence(t *testing.T, b *coord.Bus) {
	t.Helper()
	before := runtime.NumGoroutine()
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			for range 40 {
				began := time.Now()
				err := b.Wake(context.Background(), coord.Hint{Queue: "q"})
				if took := time.Since(began); took > time.Second || err == nil {
					t.Errorf("a command took %v: %v", took, err)
				}
			}
		})
	}
	callers.Wait()
	if n := runtime.NumGoroutine() - before; n > 500 { // other tests run at the same time
		t.Errorf("%d goroutines more than before", n)
	}
}

// opaque is a client of a type that New does not know, so it cannot be tuned.
type opaque struct{ redis.UniversalClient }

func TestACallerThatLeavesGetsItsOwnErrorAndDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	b := coord.New(real(t), patient(newNamespace()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		err := b.Wake(ctx, coord.Hint{Queue: "q"})
		if !errors.Is(err, context.Canceled) || errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("error: got %v, want context.Canceled", err)
		}
	}
	if !b.Healthy() {
		t.Error("the breaker opened")
	}
}

func TestACommandGoesOnWhenItsCallerLeaves(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		all := listenToAll(t, rdb, ns)
		client := &leavingClient{UniversalClient: rdb}
		b := coord.New(client, patient(ns))
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			client.leave = func() {}
			must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 1}))
			client.leave = cancel
			sent := b.Stats().HintsSent
			if err := b.Wake(ctx, coord.Hint{Queue: "q"}); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("error: got %v, want context.Canceled", err)
			}
			eventually(t, 5*time.Second, "the hint is sent all the same", func() bool { return b.Stats().HintsSent == sent+1 })
		}
		if got := len(all.take(t)); got != 5 || !b.Healthy() || b.Stats().Failures != 0 {
			t.Errorf("messages: got %d, want 5; healthy %v; %d failures", got, b.Healthy(), b.Stats().Failures)
		}
	})
}

// leavingClient has the caller leave while its command is under way.
type leavingClient struct {
	redis.UniversalClient
	leave func()
}

func (c *leavingClient) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	c.leave()
	return c.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

// A caller's short deadline is no fault of Redis; the silence behind it is.
func TestSilenceIsNoticedBehindCallersWithShortDeadlines(t *testing.T) {
	t.Parallel()
	target := real(t).Options().Addr
	hop := testenv.NewProxy(t, target)
	b := coord.New(dial(t, hop.Addr()), coord.Config{Namespace: newNamespace()})
	must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
	hop.Silence(true)
	eventually(t, 5*time.Second, "the breaker opens", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = b.Wake(ctx, coord.Hint{Queue: "q"})
		return !b.Healthy()
	})
	hop.Silence(false)
	eventually(t, 6*time.Second, "commands get through again", func() bool {
		return b.Wake(t.Context(), coord.Hint{Queue: "q"}) == nil
	})
}

func TestAnErrorHoldsNoPassword(t *testing.T) {
	t.Parallel()
	s := private(t, "--requirepass", "right")
	_, port, _ := net.SplitHostPort(s.addr)
	opt, err := redis.ParseURL("redis://user:hunter2@127.0.0.1:" + port + "/0")
	must(t, err)
	rdb := redis.NewClient(opt)
	defer rdb.Close()
	b := coord.New(rdb, patient("weir"))
	if err := b.Wake(t.Context(), coord.Hint{Queue: "q"}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error: got %v, want one without the password", err)
	}
}

func TestInAClusterMessagesAreSharded(t *testing.T) {
	t.Parallel()
	s := private(t, "--cluster-enabled", "yes", "--cluster-config-file", t.TempDir()+"/nodes.conf")
	single := dial(t, s.addr)
	b := coord.New(single, patient("weir"))
	if err := b.Wake(t.Context(), coord.Hint{Queue: "q"}); !errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), "CLUSTERDOWN") {
		t.Errorf("a cluster without slots: got %v, want CLUSTERDOWN", err)
	}
	must(t, single.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	eventually(t, 10*time.Second, "the cluster is up", func() bool {
		return strings.Contains(single.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr}, Protocol: 2})
	t.Cleanup(func() { _ = cluster.Close() })
	b = coord.New(cluster, patient("weir"))
	p := listen(t, b, "w")
	queues := []coord.Idle{{Queue: "q", Free: 1}}
	var hints []coord.Hint
	for i := range 20 { // all in one slot, or the script is refused
		queues = append(queues, coord.Idle{Queue: "q{" + strconv.Itoa(i) + "}", Free: 1})
		hints = append(hints, coord.Hint{Queue: queues[i].Queue})
	}
	must(t, b.Register(t.Context(), "dead", queues...))
	must(t, b.Register(t.Context(), "w", queues...))
	must(t, b.Leave(t.Context(), "dead", []string{"q"}, hints...))
	for range hints {
		wait(t, p.hints, "a hint for each queue")
	}
	must(t, b.Publish(t.Context(), coord.Control{Verb: "pause"}))
	wait(t, p.controls, "the control message")
	must(t, single.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	wait(t, p.stands, "OnSubscribed once more")
	hear(t, b, p, "w", 5*time.Second)
	if n := single.PubSubShardNumSub(t.Context(), "{weir}:1:control").Val()["{weir}:1:control"]; n != 1 {
		t.Errorf("sharded subscriptions: got %d, want 1", n)
	}
}
