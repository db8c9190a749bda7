package run_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/run"
)

func TestASweeperWritesTheLimitsThatItsConfigurationOwns(t *testing.T) {
	t.Parallel()
	pool, namespace := testenv.Schema(t)
	c, err := client.New(pool, client.Config{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	base := environ("WEIR_NAMESPACE="+namespace, "WEIR_POSTGRES_URL="+testenv.Postgres(t))
	// sweep runs a sweeper with settings until done holds.
	sweep := func(done func([]client.Limit, []client.QueueLimit) bool, settings ...string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		var out bytes.Buffer
		go func() { ended <- run.SweeperMain(ctx, nil, append(base, settings...), &out, &out) }()
		testenv.Eventually(t, soon, func() bool {
			limits, err := c.Limits(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			queues, err := c.QueueLimits(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return done(limits, queues)
		}, "the limits are not those of the configuration")
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("the sweeper ended with %d: %s", code, out.String())
		}
	}
	sweep(func(l []client.Limit, q []client.QueueLimit) bool {
		return len(l) == 2 && l[0] == client.Limit{Key: "tenant:", Prefix: true, N: 3, Owner: "config"} && l[1].Rate && l[1].N == 100 &&
			len(q) == 1 && q[0].Name == "mail" && q[0].N == 40 && q[0].Owner == "config"
	}, "WEIR_LIMITS=tenant:*=3,stripe=100/s", "WEIR_QUEUES=mail=40")
	sweep(func(l []client.Limit, q []client.QueueLimit) bool { // queues are not spoken of: they stay
		return len(l) == 1 && l[0].Key == "other" && len(q) == 1
	}, "WEIR_LIMITS=other=1")
}
