package coord

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// MaxHops is how often a hint is passed on before it is given up. A hint that nobody can use must not circle for ever;
// the row it spoke of is found by the sweeper's wake or the next poll.
const MaxHops = 16

// maxHints is how many hints one call of the script takes; more go in several calls.
const maxHints = 512

// Hint says that a queue has jobs. It is never an order: the receiver reads the rows.
type Hint struct {
	Queue string // at most 128 bytes, any bytes

	// Kind is the kind of the announced jobs. Empty means any: unknown, several, or too long for the message (queue and
	// kind together above some 160 bytes).
	Kind string

	// Count is how many jobs are announced; on a received hint, how many of them fall to this worker, never more than
	// the free slots it had registered. Below one means one.
	Count int

	// ReadyAt is the least ready_at of the announced jobs, on the database clock, to the microsecond. Zero: not known.
	ReadyAt time.Time

	// Early says that the jobs' transaction may not have committed yet: who finds nothing looks again a few times.
	Early bool

	// Again says that the jobs were announced before and nobody has taken them: a worker that was told and has not
	// answered since is no longer relied on (`silent`). It is not part of the message.
	Again bool

	// Stays, on a received hint, says that this worker still stands in the queue's idle set, with fewer slots than it has
	// free: it need not register before its claim, and corrects its score after it (`score`).
	Stays bool

	// Hops is how often the hint was passed on.
	Hops int

	// heard is the worker that received the hint; it is not woken when it passes the hint on.
	heard string
}

// Wake tells as many idle workers of each hint as its jobs need: it pops them from the queue's idle set, fullest first,
// until their free slots cover Count, and publishes to each one's own channel. One that has slots left stays in the set with half
// of them. A popped worker whose channel nobody
// listens to does not count; the next one is taken (`receivers`). All hints together cost one round trip.
//
// No idle worker is no error: busy ones look for more when a slot is freed. Hints of one queue and kind are made one.
func (b *Bus) Wake(ctx context.Context, hints ...Hint) error {
	_, err := b.Announce(ctx, hints...)
	return err
}

// Announce does what Wake does and returns how many of the jobs found no idle worker.
func (b *Bus) Announce(ctx context.Context, hints ...Hint) (unmet int, err error) {
	return b.wake(ctx, "wake", "", nil, hints)
}

// Forward passes a received hint on to other workers than the one that received it: it had no free slot (`busyForward`),
// does not know the kind (`kindForward`), or not all of them (`partForward`: one hint for each unknown kind). It takes
// any idle worker, not the fullest, or two workers that do not know a kind would throw it at each other until it is
// exhausted. After MaxHops the hint is dropped and Forward returns nil. A hint made here, not received, is sent as it is.
func (b *Bus) Forward(ctx context.Context, h Hint) error {
	_, err := b.wake(ctx, "forward", h.heard, nil, b.passOn([]Hint{h}))
	return err
}

// Leave takes a worker out of the idle sets of queues and then, in the same script, wakes others for the hints in
// forward: one more worker for a queue whose claim filled every slot (`fullForward`; Count 1), or those who take over
// what a closing worker was told (`closeForward`). Leaving comes first (`leaveFirst`), or the worker might wake itself.
func (b *Bus) Leave(ctx context.Context, worker string, queues []string, forward ...Hint) error {
	_, err := b.wake(ctx, "leave", worker, queues, b.passOn(forward))
	return err
}

// passOn makes received hints one hop older, without those that have gone far enough.
func (b *Bus) passOn(hints []Hint) []Hint {
	out := make([]Hint, 0, len(hints))
	for _, h := range hints {
		if h.heard != "" {
			h.Hops++
		}
		if h.Hops >= MaxHops {
			b.count.exhausted.Add(1)
			continue
		}
		out = append(out, h)
	}
	return out
}

// wake runs the one script behind all of them.
func (b *Bus) wake(ctx context.Context, what, worker string, leave []string, hints []Hint) (unmet int, err error) {
	if !b.Enabled() {
		return 0, nil
	}
	for _, h := range hints {
		if len(h.Queue) > maxName {
			return 0, fmt.Errorf("%s: queue name of %d bytes: limit %d", what, len(h.Queue), maxName)
		}
	}
	hints = merge(hints)
	for len(leave)+len(hints) > 0 {
		part := hints[:min(len(hints), maxHints)]
		hints = hints[len(part):]
		n, err := b.wakePart(ctx, what, worker, leave, part)
		if err != nil {
			b.count.lost.Add(uint64(len(part) + len(hints)))
			return 0, err
		}
		unmet += n
		leave = nil
	}
	return unmet, nil
}

func (b *Bus) wakePart(ctx context.Context, what, worker string, leave []string, hints []Hint) (unmet int, err error) {
	names := make([]string, 0, len(leave)+len(hints))
	for _, queue := range leave {
		names = append(names, b.keys.idle(queue))
	}
	publish := "PUBLISH"
	if b.sharded {
		publish = "SPUBLISH"
	}
	args := make([]any, 0, 4+3*len(hints))
	args = append(args, worker, len(leave), publish, b.keys.workerPrefix())
	for _, h := range hints {
		names = append(names, b.keys.idle(h.Queue))
		args = append(args, h.Count, rank(h), hintBody(h))
	}
	var short atomic.Int64 // a caller that left does not wait for the command
	err = b.do(ctx, what, func(ctx context.Context) error {
		got, err := wakeScript.Run(ctx, b.rdb, names, args...).Int64Slice()
		if err != nil {
			return err
		}
		if len(got) != 3 {
			return fmt.Errorf("wake script returned %d numbers: want 3", len(got))
		}
		b.count.sent.Add(uint64(got[0]))
		b.count.unheard.Add(uint64(got[1]))
		short.Store(got[2])
		return nil
	})
	return int(short.Load()), err
}

// rank picks the idle worker: -1 the fullest, -2 so too, for jobs that were announced before, otherwise one by lot.
func rank(h Hint) int {
	switch {
	case h.Hops > 0:
		return rand.IntN(1 << 30)
	case h.Again:
		return -2
	}
	return -1
}

// merge makes hints of one queue and kind one and puts hints of one queue next to each other, as wake.lua wants them.
func merge(hints []Hint) []Hint {
	type subject struct{ queue, kind string }
	seen := make(map[subject]int, len(hints))
	out := make([]Hint, 0, len(hints))
	for _, h := range hints {
		h.Count = min(max(h.Count, 1), maxCount)
		h.Hops = max(h.Hops, 0)
		i, ok := seen[subject{h.Queue, h.Kind}]
		if !ok {
			seen[subject{h.Queue, h.Kind}] = len(out)
			out = append(out, h)
			continue
		}
		o := &out[i]
		o.Count = min(o.Count+h.Count, maxCount)
		o.Hops = max(o.Hops, h.Hops)
		o.ReadyAt = earlier(o.ReadyAt, h.ReadyAt)
		o.Early = o.Early || h.Early
		o.Again = o.Again || h.Again
	}
	slices.SortStableFunc(out, func(a, b Hint) int { return cmp.Compare(a.Queue, b.Queue) })
	return out
}

// earlier is the least of two times; zero, not known, is below all, since the receiver must then look at everything.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
