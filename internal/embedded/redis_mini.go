package embedded

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// miniTick is the grain of expiry in miniredis.
const miniTick = 50 * time.Millisecond

// mini is a Redis in our own process.
type mini struct {
	server *miniredis.Miniredis
	quit   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

// startMini starts a new, empty miniredis, on r.port if that is set. The caller holds mu or is the only one to know r.
func (r *Redis) startMini() error {
	err := withPort(max(r.port, r.cfg.Port), func(port int) error {
		m := &mini{server: miniredis.NewMiniRedis(), quit: make(chan struct{})}
		r.port = port
		if err := m.server.StartAddr(r.addr()); err != nil {
			return fmt.Errorf("start miniredis: %w", taken(err))
		}
		m.wg.Go(m.age)
		r.mini = m
		return nil
	})
	return err
}

// age lets keys expire: left alone, miniredis keeps them for ever. Its TIME is the real one anyway.
func (m *mini) age() {
	tick := time.NewTicker(miniTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-m.quit:
			return
		case now := <-tick.C:
			m.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

// close ends it and all its connections. It may be called again.
func (m *mini) close() {
	m.once.Do(func() {
		close(m.quit)
		m.wg.Wait()
		m.server.Close()
	})
}
