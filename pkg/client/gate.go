package client

import (
	"context"
	"sync"
)

// gate bounds how many statements with unique jobs this process has under way: each may wait for a transaction that is open
// elsewhere, and holds a connection of the pool meanwhile. Half of them stay free for all else, and of the calls for one key a
// single one waits in the database.
type gate struct {
	slots chan struct{}

	mu   sync.Mutex
	keys map[string]*turn
}

// turn is a key that calls are under way for.
type turn struct {
	free  chan struct{} // holds one token: it is nobody's turn
	users int
}

func newGate(conns int32) *gate {
	return &gate{slots: make(chan struct{}, max(conns/2, 1)), keys: map[string]*turn{}}
}

// enter waits for the turn of key, "" for several, and for a slot. leave must be called when the statement is over.
func (g *gate) enter(ctx context.Context, key string) (leave func(), err error) {
	back := func() {}
	if key != "" {
		t := g.join(key)
		back = func() { g.part(key, t) }
		select {
		case <-t.free:
			back = func() { t.free <- struct{}{}; g.part(key, t) }
		case <-ctx.Done():
			back()
			return nil, ended(ctx)
		}
	}
	select {
	case g.slots <- struct{}{}:
		return func() { <-g.slots; back() }, nil
	case <-ctx.Done():
		back()
		return nil, ended(ctx)
	}
}

func (g *gate) join(key string) *turn {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.keys[key]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		g.keys[key] = t
	}
	t.users++
	return t
}

func (g *gate) part(key string, t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(g.keys, key)
	}
}
