package worker

import (
	"sync"
	"time"
)

// crew counts the goroutines that run handlers. A sync.WaitGroup will not do: waiting for it with a limit leaves a goroutine
// behind with each handler that never returns, and when that one returns in a later drain the group, which is in use again,
// panics.
type crew struct {
	mu   sync.Mutex
	n    int
	gone chan struct{} // closed when n falls to zero; nil while nobody waits
}

func (c *crew) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.gone != nil {
		close(c.gone)
		c.gone = nil
	}
}

// wait waits until all have left, at most limit.
func (c *crew) wait(limit time.Duration) bool {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return true
	}
	if c.gone == nil {
		c.gone = make(chan struct{})
	}
	gone := c.gone
	c.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-gone:
		return true
	case <-timer.C:
		return false
	}
}
