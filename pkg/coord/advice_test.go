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

// advice is every command about locks and rates.
func advice(b *coord.Bus) map[string]func(context.Context) error {
	rates := []coord.RateJob{hundred("1")}
	return map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := b.Acquire(ctx, one("1", "a", "b"), time.Second); return err },
		"renew locks": func(ctx context.Context) error {
			return b.RenewLocks(ctx, []coord.Member{{Key: "a", ID: "1"}, {Key: "b", ID: "1"}}, time.Second)
		},
		"swap locks": func(ctx context.Context) error {
			return b.SwapLocks(ctx, []coord.Swap{{Key: "a", Out: "1"}, {Key: "b", Out: "1", In: "2"}}, time.Second)
		},
		"write holders": func(ctx context.Context) error {
			return b.WriteHolders(ctx, map[string][]string{"a": {"1"}, "b": nil}, time.Second)
		},
		"holders":   func(ctx context.Context) error { _, err := b.Holders(ctx, "a"); return err },
		"reserve":   func(ctx context.Context) error { _, _, err := b.Reserve(ctx, rates, 0); return err },
		"unreserve": func(ctx context.Context) error { return b.Unreserve(ctx, rates) },
		"hold rate": func(ctx context.Context) error { return b.HoldRate(ctx, "stripe", time.Second) },
	}
}

func TestAdviceReactsToAnswersAsWakesDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer string
		opens  bool
	}{
		{"-READONLY You can't write against a read only replica.", true},
		{"-LOADING Redis is loading the dataset in memory", true},
		{"-MOVED 3999 127.0.0.1:6381", true},
		{"-OOM command not allowed when used memory > 'maxmemory'.", false},
		{"-NOSCRIPT No matching script.", false},
		{":1", false}, // not what a script of ours returns, but for some
	} {
		rdb := redis.NewClient(&redis.Options{Addr: scripted(t, c.answer), DisableIdentity: true})
		t.Cleanup(func() { _ = rdb.Close() })
		for what, call := range advice(coord.New(rdb, patient("weir"))) {
			t.Run(what+" "+c.answer, func(t *testing.T) {
				t.Parallel()
				err := call(context.Background())
				if c.answer == ":1" {
					return // it must not panic
				}
				// The breaker may have opened meanwhile for the others.
				if err == nil || errors.Is(err, coord.ErrUnavailable) != c.opens || !strings.HasPrefix(err.Error(), what+": ") {
					t.Errorf("got %v, want an error of %s that is unavailable: %v", err, what, c.opens)
				}
			})
		}
	}
}

func TestAdviceOfADeadRedisCostsMicroseconds(t *testing.T) {
	t.Parallel()
	b := coord.New(dial(t, "127.0.0.1:1"), coord.Config{})
	for b.Healthy() {
		_ = b.HoldRate(t.Context(), "r", time.Second)
	}
	began, refused := time.Now(), b.Stats().Refused
	for what, call := range advice(b) {
		for range 100 {
			if err := call(t.Context()); !errors.Is(err, coord.ErrUnavailable) {
				t.Errorf("%s: got %v, want ErrUnavailable", what, err)
			}
		}
	}
	if took := time.Since(began); took > time.Second || b.Stats().Refused == refused {
		t.Errorf("800 commands took %v, %d refused", took, b.Stats().Refused-refused)
	}
}

// Out of memory Redis still lets go, or what is held would be held until it expires.
func TestAServerOutOfMemoryStillReleases(t *testing.T) {
	t.Parallel()
	s := private(t, "--maxmemory-policy", "noeviction")
	rdb := dial(t, s.addr)
	b := coord.New(rdb, patient("weir"))
	acquire(t, b, one("1", "a"))
	must(t, b.SwapLocks(t.Context(), []coord.Swap{{Key: "other", Out: "1"}}, time.Minute))
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for range 5 {
		if _, err := b.Acquire(t.Context(), one("2", "b"), time.Minute); err == nil || errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("acquire: got %v, want a refusal that does not count", err)
		}
	}
	must(t, b.SwapLocks(t.Context(), []coord.Swap{{Key: "a", Out: "1"}}, time.Minute))
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	if got := acquire(t, b, one("2", "a")); got != "" {
		t.Errorf("busy %q: the release did nothing", got)
	}
}

func TestAfterFlushAllAndScriptFlushTheTruthComesBack(t *testing.T) {
	t.Parallel()
	rdb := dial(t, private(t).addr)
	b := coord.New(rdb, patient("weir"))
	for range 3 {
		acquire(t, b, one("1", "a"))
		reserve(t, b, hundred("1"))
		must(t, rdb.FlushAll(t.Context()).Err())
		must(t, rdb.ScriptFlush(t.Context()).Err())
		must(t, b.RenewLocks(t.Context(), []coord.Member{{Key: "a", ID: "1"}}, time.Minute))
		if got := holding(t, b, "a"); got != "" {
			t.Errorf("a renewal brought back %q", got)
		}
		must(t, b.WriteHolders(t.Context(), map[string][]string{"a": {"1"}}, time.Minute))
		if got := acquire(t, b, one("2", "a")); got != "a" {
			t.Errorf("busy: got %q, want a", got)
		}
	}
	if s := b.Stats(); s.LocksMissing != 3 || s.LocksGone != 3 || s.LocksWrong != 0 {
		t.Errorf("stats: got %+v, want 3 missing, 3 gone, none wrong", s)
	}
}

// All keys of a call lie in one slot and are named in KEYS, or a cluster refuses the script.
func TestInAClusterAdviceStaysInOneSlot(t *testing.T) {
	t.Parallel()
	s := private(t, "--cluster-enabled", "yes", "--cluster-config-file", t.TempDir()+"/nodes.conf")
	single := dial(t, s.addr)
	must(t, single.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	eventually(t, 10*time.Second, "the cluster is up", func() bool {
		return strings.Contains(single.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr}, Protocol: 2})
	t.Cleanup(func() { _ = cluster.Close() })
	b := coord.New(cluster, patient("we{i}r"))
	for what, call := range advice(b) {
		if err := call(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	b = coord.New(cluster, patient("{other}")) // the commands above left their locks
	job, rate := coord.LockJob{ID: "1", Keys: oddKeys()}, coord.RateJob{Member: "1"}
	for _, key := range job.Keys {
		rate.Rates = append(rate.Rates, coord.RateKey{Name: key, N: 1, Per: time.Second})
	}
	if got := acquire(t, b, []coord.LockJob{job}); got != "" {
		t.Errorf("busy %q", got)
	}
	reserve(t, b, rate)
	must(t, b.Unreserve(t.Context(), []coord.RateJob{rate}))
}
