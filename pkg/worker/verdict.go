package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// maxRetryIn is the longest wait that a handler may ask for with RetryIn or Snooze.
const maxRetryIn = 365 * 24 * time.Hour

// verb is what is done with a job whose handler has ended.
type verb int8

const (
	complete verb = iota
	retry
	bury
	release
)

// verdict is the decision about one attempt. It is made once, when the handler ends or is given up.
type verdict struct {
	verb    verb
	failure pgstore.Failure // for retry and bury
	result  []byte          // for complete
	err     error           // what the handler returned, unwrapped from Weir's own types
	event   EventType
	wait    time.Duration // for release: until the job may be claimed again
	warning string
	refused bool // the database did not take the first verdict
	verify  bool // FinishTx was called: its transaction decides, not the handler's return
}

// failed reports whether OnError is told.
func (v *verdict) failed() bool {
	switch v.verb {
	case retry:
		return v.event != EventSnoozed
	case bury:
		return true
	case release:
		return v.event == EventLeaseLost
	}
	return false
}

// next says what will happen to the job if the verdict is accepted.
func (v *verdict) next() Next {
	switch {
	case v.verb == complete:
		return Next{State: job.Completed}
	case v.verb == bury:
		return Next{State: job.DeadState(v.failure.Final)}
	case v.verb == release:
		return Next{State: job.Available, WillRetry: true}
	}
	if v.event == EventSnoozed {
		return Next{State: job.Scheduled, Delay: v.failure.Wait, WillRetry: true}
	}
	return Next{State: job.Retrying, Delay: v.failure.Wait, WillRetry: true}
}

// judgeSafely is judge, but an error whose methods panic (a nil pointer in an error, with an Unwrap method) is itself
// the attempt's failure: it must not take the process down.
func judgeSafely(row *job.Row, backoff job.Backoff, err, cause error, ran time.Duration) (v verdict) {
	defer func() {
		if r := recover(); r != nil {
			stack := job.SanitizeText(string(debug.Stack()), job.MaxStackBytes)
			v = judge(row, backoff, &job.PanicError{Value: r, Stack: stack}, cause, ran)
		}
	}()
	return judge(row, backoff, err, cause, ran)
}

// judge decides what becomes of an attempt that returned err after ran. cause is why its context had ended, nil if it
// had not. It is pure but for the jitter.
func judge(row *job.Row, backoff job.Backoff, err, cause error, ran time.Duration) verdict {
	v := verdict{err: err}
	v.failure = pgstore.Failure{Held: pgstore.Held{ID: row.ID, Fence: row.Fence}, Ran: ran}
	var infra *infraError
	if errors.As(err, &infra) { // this host's trouble says nothing about the job
		v.verb, v.event, v.wait = release, EventReleased, infra.wait
		return v
	}
	if errors.Is(cause, job.ErrTimeout) && !decided(err) {
		// Also a nil: work that ended after its time may have been given up by everyone who waited for it.
		err = timeoutError(err)
		v.err, v.failure.Outcome = err, "timed out"
		v.fail(row, backoff, err)
		return v
	}
	var (
		panicked *job.PanicError
		cancel   *job.CancelError
		discard  *job.DiscardError
		snooze   *job.SnoozeError
		closed   *job.RateBackoffError
	)
	switch {
	case err == nil:
		v.verb, v.event = complete, EventCompleted
	case errors.As(err, &panicked): // first: what was thrown is not what was returned, though it may wrap a Cancel
		v.failure.Outcome = "failed"
		v.fail(row, backoff, err)
	case errors.As(err, &cancel):
		v.end(job.DeadCancelled, "cancelled", EventCancelled, cancel.Err)
	case errors.As(err, &discard):
		v.end(job.DeadDiscarded, "discarded", EventDiscarded, discard.Err)
	case errors.As(err, &snooze):
		v.verb, v.event = retry, EventSnoozed
		v.failure.Back = true // no attempt is used, and none is written down
		v.failure.Wait = min(max(snooze.Delay, 0), maxRetryIn)
	case errors.As(err, &closed):
		v.verb, v.event = retry, EventSnoozed
		v.failure.Back = true
		v.failure.Wait, v.failure.Hold = closed.Delay, closed.Key
	case errors.Is(cause, job.ErrCancelled):
		v.end(job.DeadCancelled, "cancelled", EventCancelled, err)
	case errors.Is(cause, job.ErrShutdown):
		v.verb, v.event = release, EventReleased
	default:
		v.failure.Outcome = "failed"
		v.fail(row, backoff, err)
	}
	return v
}

// decided reports whether a handler said itself how its job ends: that stands, whatever the clock says.
func decided(err error) bool {
	var (
		panicked *job.PanicError
		cancel   *job.CancelError
		discard  *job.DiscardError
	)
	return !errors.As(err, &panicked) && (errors.As(err, &cancel) || errors.As(err, &discard))
}

// timeoutError says that it was the timeout, and keeps what the handler said about where that met it.
func timeoutError(err error) error {
	switch {
	case err == nil || err == context.DeadlineExceeded:
		return job.ErrTimeout
	case errors.Is(err, job.ErrTimeout):
		return err
	}
	return fmt.Errorf("%w: %w", job.ErrTimeout, err)
}

var errNoReason = errors.New("no reason given")

func (v *verdict) end(state int16, outcome string, event EventType, err error) {
	if err == nil {
		err = errNoReason // Cancel(nil): a nil would look like a completion to the hooks
	}
	v.verb, v.event, v.err = bury, event, err
	v.failure.Final, v.failure.Outcome = state, outcome
	v.describe(err)
}

// fail retries while attempts are left, else discards.
func (v *verdict) fail(row *job.Row, backoff job.Backoff, err error) {
	v.describe(err)
	if row.Attempt >= row.MaxAttempts {
		v.verb, v.event, v.failure.Final = bury, EventDiscarded, job.DeadDiscarded
		return
	}
	v.verb, v.event = retry, EventRetried
	v.failure.Wait = backoff.Delay(row.Attempt, rand.Float64())
	var (
		wait     *job.RetryError
		panicked *job.PanicError
	)
	if errors.As(err, &wait) && !errors.As(err, &panicked) {
		v.describe(wait.Err)
		if wait.Delay > 0 && wait.Delay <= maxRetryIn {
			v.failure.Wait = wait.Delay
		} else {
			v.warning = fmt.Sprintf("RetryIn of %v is not in (0, 8760h]: the backoff applies", wait.Delay)
		}
	}
}

func (v *verdict) describe(err error) {
	if err == nil {
		err = errNoReason
	}
	v.failure.Error = errorText(err)
	var (
		p *job.PanicError
		c *ChildError
	)
	switch {
	case errors.As(err, &p):
		v.failure.Stack = p.Stack
	case errors.As(err, &c):
		v.failure.Stack = c.Stderr
	}
}

// errorText guards against an Error method that panics: the job must end all the same.
func errorText(err error) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("%T whose Error method panics", err)
		}
	}()
	return err.Error()
}
