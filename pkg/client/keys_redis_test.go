package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
)

func withRedis(tb testing.TB) rig {
	tb.Helper()
	rdb := testenv.RedisClient(tb, testenv.RedisReal)
	return open(tb, func(cfg *client.Config) { cfg.Redis = rdb })
}

func TestWhatAJobHadReservedOfARateAndWillNotUseIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c rig, id job.ID) error{
		"cancel": func(c rig, id job.ID) error { return c.Cancel(t.Context(), id) },
		"change": func(c rig, id job.ID) error { return c.Change(t.Context(), client.Change{In: time.Hour}, id) },
		"delete": func(c rig, id job.ID) error { return c.Delete(t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := withRedis(t)
			ids := c.keyed(t, 4, job.Rate("stripe", 1, 10*time.Second))
			// wait returns how long a job has to wait by Redis, as a worker asks it.
			wait := func(id job.ID) time.Duration {
				t.Helper()
				one := coord.RateJob{Member: fmt.Sprintf("%s:%d", id, 1), Rates: []coord.RateKey{{Name: "stripe", N: 1, Per: 10 * time.Second, Weight: 1}}}
				waits, _, err := c.Bus().Reserve(t.Context(), []coord.RateJob{one}, 0)
				if err != nil {
					t.Fatal(err)
				}
				return waits[0]
			}
			if first := wait(ids[0]); first != 0 {
				t.Fatalf("the first waits %v, want none", first)
			}
			second, third := wait(ids[1]), wait(ids[2])
			if second <= 0 || third < second+5*time.Second {
				t.Fatalf("the next two wait %v and %v, want one window more each", second, third)
			}
			if err := end(c, ids[1]); err != nil {
				t.Fatal(err)
			}
			if fourth := wait(ids[3]); fourth > second {
				t.Errorf("the last waits %v, want the %v of the one that will not use it", fourth, second)
			}
		})
	}
}

func TestAKeyTellsWhetherRedisAgrees(t *testing.T) {
	t.Parallel()
	c := withRedis(t)
	p := c.process(t)
	ids := c.keyed(t, 2, job.Mutex("k"))
	p.start(9)
	want := func(redis client.Agreement) {
		t.Helper()
		if d, err := c.Key(t.Context(), "k"); err != nil || d.Redis != redis {
			t.Errorf("got %q, %v, want %q", d.Redis, err, redis)
		}
	}
	want(client.RedisDiffers) // nobody has told it
	if err := c.Bus().WriteHolders(t.Context(), map[string][]string{"k": {ids[0].String()}}, time.Minute); err != nil {
		t.Fatal(err)
	}
	want(client.RedisAgrees)
	// Raised, the next in line is told to Redis too.
	if err := c.SetLimit(t.Context(), client.Limit{Key: "k", N: 2}, false); err != nil {
		t.Fatal(err)
	}
	want(client.RedisAgrees)
	if d, err := c.Key(t.Context(), "k"); err != nil || len(d.Holders) != 2 {
		t.Errorf("got %+v, %v, want two holders", d, err)
	}
}
