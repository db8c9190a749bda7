package worker

import (
	"context"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/coord"
)

// register puts this worker into the idle sets before the claim that may precede sleeping. Under load, when claims come
// back full, it is left out: such a worker does not sleep. It returns false if it was left out.
func (d *dispatcher) register(ctx context.Context, poll bool) bool {
	d.deaf = false
	if !d.w.bus.Enabled() {
		return true
	}
	if d.busy && !poll {
		return false
	}
	free := d.w.lanes.idle()
	var idle []coord.Idle
	d.mu.Lock()
	for lane, n := range d.w.lanes.all {
		// With a prefetch a lane is asked for jobs though its slots are in use. When none come no hint can reach it: the
		// slot that is freed must wake us, to register.
		d.deaf = d.deaf || free[lane] == 0 && !d.registered[lane]
		if free[lane] > 0 && (poll || !d.registered[lane]) {
			idle = append(idle, coord.Idle{Queue: n.name, Free: free[lane]})
			// Before the call, not after it: a hint may pop us again before the answer is here, and a mark set after that
			// would keep us out of the set, and deaf, until the next poll.
			d.registered[lane] = true
		}
	}
	d.mu.Unlock()
	d.list(ctx, idle)
	return true
}

// list puts this worker into idle sets, or takes it out. Polls and local timers carry on where that fails.
func (d *dispatcher) list(ctx context.Context, idle []coord.Idle) {
	if len(idle) == 0 {
		return
	}
	if err := d.w.bus.Register(ctx, d.w.name(), idle...); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, i := range idle {
			d.registered[d.laneOf(i.Queue)] = false
		}
		d.unlisted.Store(true)
		d.w.trouble("redis", err)
		return
	}
	d.listedAt = time.Now()
	d.unlisted.Store(false)
	d.w.recovered("redis")
}

// popped notes that a hint took this worker out of a lane's idle set, or left it there with a score that is too low.
func (d *dispatcher) popped(lane int, stays bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if stays {
		d.low[lane] = true
	} else {
		d.registered[lane], d.low[lane] = false, false
	}
}

// correct tells Redis the free slots of the lanes whose score a hint has lowered (`score`), after the claim and what it
// started: the job does not wait for it.
func (d *dispatcher) correct(ctx context.Context) {
	d.mu.Lock()
	any := slices.Contains(d.low, true)
	d.mu.Unlock()
	if !any {
		return
	}
	free := d.w.lanes.idle()
	var idle []coord.Idle
	d.mu.Lock()
	for lane, n := range d.w.lanes.all {
		if d.low[lane] && d.registered[lane] {
			idle = append(idle, coord.Idle{Queue: n.name, Free: free[lane]})
			d.registered[lane] = free[lane] > 0 // before the call, as in register
			d.deaf = d.deaf || free[lane] == 0  // out of the set: the slot that is freed must wake us
		}
		d.low[lane] = false
	}
	d.mu.Unlock()
	d.list(ctx, idle)
}

func (d *dispatcher) forgetRegistration() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.registered)
	clear(d.low)
}
