package coord_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/coord"
)

// clock is a client whose scripts read the time of a key in place of the server's, and leave out expiries, which would
// go by the server's: a test that makes its own time sees what the scores say, not what Redis has thrown away.
type clock struct {
	redis.UniversalClient
	key     string
	scripts map[string]*redis.Script // by the hash of what stands in the folder lua
	ms      int64
}

// newClock returns a clock in a namespace of its own, and a bus on it.
func newClock(t testing.TB, rdb redis.UniversalClient) (*clock, *coord.Bus) {
	t.Helper()
	ns := newNamespace()
	c := &clock{UniversalClient: rdb, key: ns + "clock", scripts: map[string]*redis.Script{}}
	files, err := filepath.Glob("lua/*.lua")
	must(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		must(t, err)
		changed := strings.ReplaceAll(string(source), "redis.call('TIME')", "redis.call('HMGET', '"+c.key+"', 's', 'us')")
		changed = strings.ReplaceAll(changed, "redis.call('PEXPIRE', ", "tostring(")
		c.scripts[redis.NewScript(string(source)).Hash()] = redis.NewScript(changed)
	}
	c.set(t, 1_800_000_000_000)
	return c, coord.New(c, patient(ns))
}

func (c *clock) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return c.scripts[sha].Run(ctx, c.UniversalClient, keys, args...)
}

func (c *clock) set(t fataler, ms int64) {
	t.Helper()
	c.ms = ms
	if err := c.HSet(context.Background(), c.key, "s", ms/1000, "us", ms%1000*1000).Err(); err != nil {
		t.Fatalf("set the clock: %v", err)
	}
}

func (c *clock) pass(t fataler, d time.Duration) {
	t.Helper()
	c.set(t, c.ms+d.Milliseconds())
}

// flush loses all that Redis keeps for the namespace.
func (c *clock) flush(t fataler, ns string) {
	t.Helper()
	names, err := c.Keys(context.Background(), "{"+ns+"}:*").Result()
	if err == nil && len(names) > 0 {
		err = c.Del(context.Background(), names...).Err()
	}
	if err != nil {
		t.Fatalf("flush: %v", err)
	}
}

func (c *clock) namespace() string { return strings.TrimSuffix(c.key, "clock") }

// fataler is what a *testing.T and a *rapid.T have in common here.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// rest returns the keys of a namespace.
func rest(t testing.TB, rdb redis.UniversalClient, ns string) []string {
	t.Helper()
	var all []string
	scan := rdb.Scan(t.Context(), 0, "{"+ns+"}:*", 10_000).Iterator()
	for scan.Next(t.Context()) {
		all = append(all, scan.Val())
	}
	must(t, scan.Err())
	return all
}
