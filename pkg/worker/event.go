package worker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// EventType says what happened.
type EventType string

// The events. Each carries the row as it was claimed, and each that ends an attempt what will happen next.
const (
	EventClaimed   EventType = "claimed"
	EventCompleted EventType = "completed"
	EventRetried   EventType = "retried" // failed, will run again
	EventSnoozed   EventType = "snoozed"
	EventDiscarded EventType = "discarded"
	EventCancelled EventType = "cancelled"
	EventTimingOut EventType = "timing out" // past its timeout, the handler has not returned
	EventAbandoned EventType = "abandoned"  // given up with its handler still running
	EventReleased  EventType = "released"   // given back unfinished
	// EventFailureNotAdded: the job was discarded, and its failure job (job.Options.OnDiscard) could not be stored.
	EventFailureNotAdded EventType = "failure job not added"
	EventBlocked         EventType = "blocked"    // due, but a key that it needs is held: it was not started
	EventLeaseLost       EventType = "lease lost" // its result was refused, or will be: it may run elsewhere
	EventError           EventType = "error"      // the worker's own trouble; Row may be zero
)

// Event is one thing that happened in this process.
type Event struct {
	Type EventType
	Row  job.Row
	Key  string    // blocked: the lock that is held
	Err  error     // why; nil if nothing is wrong
	Next Next      // zero for claimed, timing out and error: nothing is decided
	At   time.Time // local clock
}

// Next is what will happen to a job after an attempt.
type Next struct {
	State     job.State     // Completed, Retrying, Scheduled (snoozed), Discarded, Cancelled, Available, Blocked
	Delay     time.Duration // until it is due again; zero if final
	WillRetry bool
}

// events is a lossy broadcast: a subscriber that is slow misses events, and they are counted.
type events struct {
	mu   sync.Mutex
	subs map[*subscription]struct{}
	some atomic.Bool // whether there is any: events are not even built otherwise
	lost atomic.Int64
}

type subscription struct{ ch chan Event }

// Events returns a stream of what happens from now on, and a function that ends it. The stream holds buffer events (at
// least 1); when it is full, further ones are lost and counted in Stats. Nothing waits for a subscriber. For a lossless
// account use Config.OnError and Config.OnFinish.
func (w *Worker) Events(buffer int) (stream <-chan Event, stop func()) {
	s := &subscription{ch: make(chan Event, max(buffer, 1))}
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	if w.events.subs == nil {
		w.events.subs = make(map[*subscription]struct{})
	}
	w.events.subs[s] = struct{}{}
	w.events.some.Store(true)
	return s.ch, func() { w.events.remove(s) }
}

func (e *events) remove(s *subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.subs[s]; ok {
		delete(e.subs, s)
		close(s.ch)
	}
	e.some.Store(len(e.subs) > 0)
}

func (e *events) send(ev Event) {
	if !e.some.Load() {
		return
	}
	ev.At = time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.subs {
		select {
		case s.ch <- ev:
		default:
			e.lost.Add(1)
		}
	}
}

// notify calls the lossless hooks for a decided attempt. A hook that panics hurts nobody; one that calls runtime.Goexit
// ends this goroutine.
func (w *Worker) notify(ctx context.Context, t *task, v *verdict) {
	w.notifyError(ctx, t, v)
	if w.cfg.OnFinish != nil {
		w.guard("OnFinish", func() { w.cfg.OnFinish(ctx, t.row, v.err, v.next()) })
	}
}

func (w *Worker) notifyError(ctx context.Context, t *task, v *verdict) {
	if w.cfg.OnError != nil && v.failed() {
		w.guard("OnError", func() { w.cfg.OnError(ctx, t.row, v.err, v.next()) })
	}
}

// FailureJobError reports that a job was discarded and its failure job could not be stored.
type FailureJobError struct {
	Kind   string // of the failure job
	Reason string
}

func (e *FailureJobError) Error() string {
	return fmt.Sprintf("worker: failure job %s not added: %s", e.Kind, e.Reason)
}

// failureNotAdded says by event, hook and log that the failure job of t could not be stored.
func (w *Worker) failureNotAdded(t *task, v *verdict, f pgstore.FailureJob) {
	err := &FailureJobError{Kind: f.Kind, Reason: f.Refused}
	w.log.Error("failure job not added", "job", t.row.ID, "kind", t.row.Kind, "failure kind", f.Kind, "reason", f.Refused)
	w.events.send(Event{Type: EventFailureNotAdded, Row: t.row, Err: err, Next: v.next()})
	if w.cfg.OnError != nil {
		w.guard("OnError", func() { w.cfg.OnError(t.context(), t.row, err, v.next()) })
	}
}

func (w *Worker) guard(hook string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			w.log.Error("hook panicked", "hook", hook, "panic", (&job.PanicError{Value: r}).Error())
		}
	}()
	f()
}
