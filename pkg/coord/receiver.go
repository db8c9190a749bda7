package coord

import (
	"fmt"
	"runtime/debug"
)

// Receiver is what Run calls, always from one goroutine, one call after the other. A callback must not block: while it
// runs nothing else is received, and Redis cuts off a subscriber that lags by megabytes. Set a flag or send to a channel
// that has room. A callback that is slow all the same, or panics, costs time but does not end Run. Nil fields are skipped.
type Receiver struct {
	// OnHint gets each hint for this worker.
	OnHint func(Hint)

	// OnControl gets each control message of the namespace.
	OnControl func(Control)

	// OnSubscribed is called at every subscription, the first and each one after a loss. What was sent while the bus was
	// away is gone: register, claim, and look at paused queues and cancelled jobs, at once.
	OnSubscribed func()
}

// receive reads one message and hands it over. Those of an unknown type are from a later release.
func (b *Bus) receive(l *listener, message string) {
	if message == "" {
		b.count.garbled.Add(1)
		return
	}
	switch message[0] {
	case typeHint:
		h, err := parseHint(message)
		if err != nil {
			b.count.garbled.Add(1)
			return
		}
		h.heard = l.worker
		b.count.heard.Add(1)
		if l.OnHint != nil {
			b.guard("OnHint", func() { l.OnHint(h) })
		}
	case typeControl:
		c, err := parseControl(message)
		if err != nil {
			b.count.garbled.Add(1)
			return
		}
		b.count.controlsHeard.Add(1)
		if l.OnControl != nil {
			b.guard("OnControl", func() { l.OnControl(c) })
		}
	case typeEcho: // it proves that the connection lives, by having come
	default:
		b.count.garbled.Add(1)
	}
}

// guard calls a callback and survives its panic.
func (b *Bus) guard(name string, callback func()) {
	defer func() {
		if p := recover(); p != nil {
			b.count.panics.Add(1)
			b.cfg.Logger.Error("callback panicked", "callback", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	callback()
}
