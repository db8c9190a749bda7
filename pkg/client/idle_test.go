package client_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// Not parallel: it looks at all goroutines of the process.
func TestAnIdleClientHoldsNoGoroutineAndNoConnection(t *testing.T) {
	rdb := testenv.RedisClient(t, testenv.RedisMini)
	c := open(t, func(cfg *client.Config) { cfg.Redis = rdb })
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			c.enqueue(t, welcome{})
			if _, err := c.EnqueueMany(t.Context(), []job.Spec{{Args: welcome{}}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	testenv.Eventually(t, 5*time.Second, func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !strings.Contains(string(stacks), "pkg/client.(") && c.pool.Stat().AcquiredConns() == 0
	}, "goroutines or connections are held")
}
