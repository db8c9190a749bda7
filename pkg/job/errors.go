package job

import (
	"errors"
	"fmt"
	"time"
)

// Why a handler's context ended, as context.Cause tells.
var (
	// ErrTimeout: the attempt ran longer than its timeout.
	ErrTimeout = errors.New("job: timeout")
	// ErrShutdown: the process is closing; the job is released and its attempt not counted.
	ErrShutdown = errors.New("job: worker is shutting down")
	// ErrLeaseLost: this process' lease ended; the job may run elsewhere and this attempt's result is refused.
	ErrLeaseLost = errors.New("job: lease lost")
	// ErrCancelled: somebody cancelled the job.
	ErrCancelled = errors.New("job: cancelled")
)

// CancelError ends a job as cancelled; see Cancel.
type CancelError struct{ Err error }

func (e *CancelError) Error() string { return "job: cancel: " + textOf(e.Err) }
func (e *CancelError) Unwrap() error { return e.Err }

// Cancel, returned by a handler, ends the job as cancelled: it is not wanted any more and not retried.
func Cancel(err error) error { return &CancelError{err} }

// DiscardError ends a job as discarded; see Discard.
type DiscardError struct{ Err error }

func (e *DiscardError) Error() string { return "job: discard: " + textOf(e.Err) }
func (e *DiscardError) Unwrap() error { return e.Err }

// Discard, returned by a handler, ends the job as discarded at once, whatever attempts are left.
func Discard(err error) error { return &DiscardError{err} }

// SnoozeError puts a job off; see Snooze.
type SnoozeError struct{ Delay time.Duration }

func (e *SnoozeError) Error() string { return fmt.Sprintf("job: snooze %v", e.Delay) }

// Snooze, returned by a handler, puts the job off by d on the database clock. It is no failure and uses no attempt. A
// negative d means now, one above 24 h × 365 means that.
func Snooze(d time.Duration) error { return &SnoozeError{d} }

// RetryError fails an attempt with a wait of its own; see RetryIn.
type RetryError struct {
	Delay time.Duration
	Err   error
}

func (e *RetryError) Error() string {
	return fmt.Sprintf("job: retry in %v: %s", e.Delay, textOf(e.Err))
}
func (e *RetryError) Unwrap() error { return e.Err }

// RetryIn, returned by a handler, fails the attempt with err and retries after d on the database clock instead of the
// backoff. A d that is not positive or above 24 h × 365 is ignored with a warning: the backoff applies.
func RetryIn(d time.Duration, err error) error { return &RetryError{d, err} }

// MaxRateBackoff is the longest time for which RateBackoff closes a rate.
const MaxRateBackoff = 24 * time.Hour

// RateBackoffError closes a rate for a while; see RateBackoff.
type RateBackoffError struct {
	Key   string        // the rate's name
	Delay time.Duration // from 1 ms to MaxRateBackoff
}

func (e *RateBackoffError) Error() string {
	return fmt.Sprintf("job: rate %s closed for %v", SanitizeText(e.Key, MaxKeyBytes), e.Delay)
}

// RateBackoff, returned by a handler, says that the other side asks for patience (HTTP 429): no job with the rate key starts
// anywhere for d, on the database clock, and this one is put off until then. It is no failure and uses no attempt. A d
// that is not positive means 1 s, one above 24 h means that. A name that no key can have (ValidateKey) makes it a *FieldError,
// which fails the attempt like any other error.
func RateBackoff(key string, d time.Duration) error {
	if err := validateKeyName("RateBackoff", key); err != nil {
		return err
	}
	if d <= 0 {
		d = time.Second
	}
	return &RateBackoffError{key, min(max(d, time.Millisecond), MaxRateBackoff)}
}

func textOf(err error) string {
	if err == nil {
		return "no reason given"
	}
	return valueText(err)
}

// PanicError is the failure of an attempt whose handler panicked, or left by runtime.Goexit.
type PanicError struct {
	Value any    // nil for Goexit
	Stack string // of the handler's goroutine, at most 16 KiB
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "handler did not return: runtime.Goexit was called"
	}
	return "panic: " + valueText(e.Value)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// valueText formats v. fmt catches a String or Error method that panics, such as that of a nil pointer in an error, but
// not one that panics with a value that panics again: a handler's value must not take the worker down.
func valueText(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T, whose text panics", v)
		}
	}()
	return fmt.Sprint(v)
}

// FailedError is what Await returns for a job that did not complete.
type FailedError struct {
	ID      ID
	Kind    string
	State   State  // Discarded, Cancelled or Expired
	Message string // of the last attempt, or the reason
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("job %s (%s) %s: %s", e.ID, e.Kind, e.State, e.Message)
}
