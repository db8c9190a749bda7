package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/weirq/weir/internal/child"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// The frames between a worker and its children. A kind that the receiver does not know is passed over.
const (
	frameHello  = 'h' // to the child, first: settings
	frameReady  = 'r' // to the worker: handlers are registered; or why not
	frameJob    = 'j' // to the child: the row; the payload is the body
	frameBegun  = 's' // to the worker: from here on an end of the child is a failed attempt
	frameCancel = 'c' // to the child: the context of its job ends
	frameDone   = 'd' // to the worker: what came of it; the result is the body
	frameQuit   = 'q' // to the child: no more jobs

	frameProgress   = 'p' // to the worker: the handler called Progress
	frameCheckpoint = 'k' // to the worker: the handler called Checkpoint; the body
)

// hello is what a child is told at its start.
type hello struct {
	Settings []string `json:"settings,omitempty"`
	Once     bool     `json:"once,omitempty"` // spawned: it ends after its job
}

// ready is the child's answer.
type ready struct {
	Error string `json:"error,omitempty"`
}

// work is a job on its way to a child.
type work struct {
	Row     job.Row       `json:"row"` // without payload
	Backoff string        `json:"backoff,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"` // left; 0: none
}

// cancelled is why a job's context ends.
type cancelled struct {
	ID    job.ID `json:"id"`
	Cause string `json:"cause"`
}

// done is what came of a job.
type done struct {
	ID       job.ID        `json:"id"`
	Outcome  string        `json:"outcome,omitempty"` // see encodeError; empty: completed
	Error    string        `json:"error,omitempty"`
	Stack    string        `json:"stack,omitempty"`
	Delay    time.Duration `json:"delay,omitempty"`
	Key      string        `json:"key,omitempty"`
	Finished bool          `json:"finished,omitempty"` // FinishTx was called without error
	RSS      int64         `json:"rss,omitempty"`
	Left     bool          `json:"left,omitempty"` // the handler left processes behind
}

// heard takes a frame about a job that is under way. A kind that is not known comes from a newer program.
func (t *task) heard(f *child.Frame) {
	switch f.Kind {
	case frameProgress:
		var p job.Progress
		if f.Decode(&p) == nil {
			t.worker.reports.progress(t, p)
		}
	case frameCheckpoint:
		t.worker.reports.checkpoint(t, f.Body)
	}
}

// sayLast sends from a child what its handler said last.
func (t *task) sayLast(r *pgstore.Report) {
	if r.Checkpoint != nil {
		t.say(frameCheckpoint, nil, r.Checkpoint)
	}
	if r.Progress != nil {
		t.say(frameProgress, r.Progress, nil)
	}
}

// causes are the ends of a context that have a meaning on both sides.
var causes = map[string]error{
	"timeout": job.ErrTimeout, "shutdown": job.ErrShutdown, "lease lost": job.ErrLeaseLost, "cancelled": job.ErrCancelled,
}

func causeName(err error) string {
	for name, cause := range causes {
		if errors.Is(err, cause) {
			return name
		}
	}
	return "cancelled"
}

func causeOf(name string) error {
	if err := causes[name]; err != nil {
		return err
	}
	return context.Canceled
}

// encodeError writes down what a handler returned: what judge would look for, and its text. What else it was is lost on
// the way.
func (d *done) encodeError(err error) {
	if err == nil {
		return
	}
	var (
		panicked *job.PanicError
		cancel   *job.CancelError
		discard  *job.DiscardError
		snooze   *job.SnoozeError
		rate     *job.RateBackoffError
		retry    *job.RetryError
	)
	inner := err
	switch { // in judge's order
	case errors.As(err, &panicked):
		d.Outcome, d.Stack = "panicked", panicked.Stack
		if panicked.Value == nil {
			d.Outcome = "left"
		}
		d.Error = job.SanitizeText(errorText(panicked), job.MaxErrorBytes)
		return
	case errors.As(err, &cancel):
		d.Outcome, inner = "cancel", cancel.Err
	case errors.As(err, &discard):
		d.Outcome, inner = "discard", discard.Err
	case errors.As(err, &snooze):
		d.Outcome, d.Delay = "snooze", snooze.Delay
	case errors.As(err, &rate):
		d.Outcome, d.Delay, d.Key = "rate", rate.Delay, rate.Key
	case errors.As(err, &retry):
		d.Outcome, d.Delay, inner = "retry", retry.Delay, retry.Err
	default:
		d.Outcome = "failed"
	}
	if inner != nil {
		d.Error = job.SanitizeText(errorText(inner), job.MaxErrorBytes)
	}
}

// panicText is the value of a panic in a child: its text is all that came over, with "panic: " before it already.
type panicText string

// err makes an error of it that judge takes as it would have taken the handler's.
func (d *done) err() error {
	var inner error
	if d.Error != "" {
		inner = errors.New(d.Error)
	}
	for _, cause := range causes { // a handler that says why its context ended says it with our own error
		if d.Error == cause.Error() {
			inner = cause
		}
	}
	switch d.Outcome {
	case "":
		return nil
	case "panicked":
		text := d.Error
		if len(text) > len("panic: ") && text[:len("panic: ")] == "panic: " {
			text = text[len("panic: "):]
		}
		return &job.PanicError{Value: panicText(text), Stack: d.Stack}
	case "left":
		return &job.PanicError{Stack: d.Stack}
	case "cancel":
		return job.Cancel(inner)
	case "discard":
		return job.Discard(inner)
	case "snooze":
		return job.Snooze(d.Delay)
	case "rate":
		return job.RateBackoff(d.Key, d.Delay)
	case "retry":
		return job.RetryIn(d.Delay, inner)
	}
	if inner == nil {
		inner = errNoReason
	}
	return inner
}

// workOf is what a child needs of t.
func workOf(ctx context.Context, row *job.Row) (w work, payload []byte) {
	w.Row, payload = *row, row.Payload
	w.Row.Payload, w.Backoff = nil, row.Backoff.String()
	if at, ok := ctx.Deadline(); ok {
		w.Timeout = max(time.Until(at), time.Millisecond)
	}
	return w, payload
}

// decodeWork reads a frame of a job.
func decodeWork(f *child.Frame) (w work, err error) {
	if err = f.Decode(&w); err != nil {
		return w, err
	}
	w.Row.Payload = json.RawMessage(f.Body)
	w.Row.Backoff, err = job.ParseBackoff(w.Backoff)
	return w, err
}
