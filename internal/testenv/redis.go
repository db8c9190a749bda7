package testenv

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weirq/weir/internal/embedded"
)

// RedisMode is how a test runs with Redis.
type RedisMode string

// The modes that a conformance test runs in.
const (
	RedisReal RedisMode = "redis"     // the shared server
	RedisMini RedisMode = "miniredis" // one in the process, of the test's own
	RedisNone RedisMode = "none"      // no client: Postgres alone
)

// Modes are all modes, for a loop of subtests.
var Modes = []RedisMode{RedisReal, RedisMini, RedisNone}

// RedisURL returns the URL of the shared server: WEIR_TEST_REDIS_URL, WEIR_REDIS_URL, or a private redis-server. Without
// any the test is skipped, and says so. A test that flushes uses PrivateRedis.
func RedisURL(tb testing.TB) string {
	tb.Helper()
	if url := firstEnv("WEIR_TEST_REDIS_URL", "WEIR_REDIS_URL"); url != "" {
		return url
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.redis == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startWithin)
		defer cancel()
		shared.redis = mustRedis(ctx, tb, embedded.KindRedisServer)
	}
	return shared.redis.URL()
}

// Redis returns a client of the shared server, closed when the test ends. See RedisURL.
func Redis(tb testing.TB) redis.UniversalClient {
	tb.Helper()
	return Client(tb, RedisURL(tb))
}

// RedisClient returns a client for mode, closed when the test ends. It is nil (the interface itself) for RedisNone.
func RedisClient(tb testing.TB, mode RedisMode) redis.UniversalClient {
	tb.Helper()
	switch mode {
	case RedisReal:
		return Redis(tb)
	case RedisMini:
		r := mustRedis(context.Background(), tb, embedded.KindMiniredis)
		closeAtEnd(tb, r)
		return Client(tb, r.URL())
	case RedisNone:
		return nil
	}
	tb.Fatalf("RedisClient: unknown mode %q", mode)
	return nil
}

// PrivateRedis starts a redis-server of the test's own, which it may kill, pause, restart and flush. It is closed when
// the test ends. Without a program redis-server the test is skipped.
func PrivateRedis(tb testing.TB) *embedded.Redis {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	r := mustRedis(ctx, tb, embedded.KindRedisServer)
	closeAtEnd(tb, r)
	return r
}

// Client returns a client of the server at url, closed when the test ends. It obeys its callers' deadlines.
func Client(tb testing.TB, url string) redis.UniversalClient {
	tb.Helper()
	opt, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal("read Redis URL: ", err)
	}
	opt.ContextTimeoutEnabled = true // go-redis ignores deadlines by default
	c := redis.NewClient(opt)
	tb.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

func mustRedis(ctx context.Context, tb testing.TB, kind string) *embedded.Redis {
	tb.Helper()
	r, err := embedded.StartRedis(ctx, embedded.RedisConfig{Kind: kind})
	if errors.Is(err, embedded.ErrNoBinary) {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
