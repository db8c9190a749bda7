package job_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
)

func TestWhatAHandlerWrapsIsFoundAgain(t *testing.T) {
	t.Parallel()
	inner := &fs.PathError{Op: "open", Path: "x", Err: io.ErrUnexpectedEOF}
	for name, err := range map[string]error{
		"Cancel":  job.Cancel(inner),
		"Discard": job.Discard(inner),
		"RetryIn": job.RetryIn(time.Minute, inner),
		"a panic": &job.PanicError{Value: inner},
	} {
		for depth, err := range []error{err, fmt.Errorf("send mail: %w", err), errors.Join(io.EOF, err)} {
			var path *fs.PathError
			if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &path) || path != inner {
				t.Errorf("%s, wrapped %d: got %v, want the inner error found in it", name, depth, err)
			}
			if !strings.Contains(err.Error(), inner.Error()) {
				t.Errorf("%s: got text %q, want the inner one in it", name, err)
			}
		}
	}
}

func TestWhatAHandlerAsksForIsFoundAgain(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("handle: %w", errors.Join(io.EOF, err)) }
	var (
		cancel  *job.CancelError
		discard *job.DiscardError
		snooze  *job.SnoozeError
		retry   *job.RetryError
	)
	if err := wrap(job.Cancel(io.EOF)); !errors.As(err, &cancel) || cancel.Err != io.EOF || errors.As(err, &discard) {
		t.Errorf("Cancel: got %#v", cancel)
	}
	if err := wrap(job.Discard(io.EOF)); !errors.As(err, &discard) || discard.Err != io.EOF || errors.As(err, &retry) {
		t.Errorf("Discard: got %#v", discard)
	}
	for _, d := range []time.Duration{0, time.Hour, -time.Second, math.MinInt64} {
		if err := wrap(job.Snooze(d)); !errors.As(err, &snooze) || snooze.Delay != d || !strings.Contains(err.Error(), d.String()) {
			t.Errorf("Snooze(%v): got %#v", d, snooze)
		}
		if err := wrap(job.RetryIn(d, io.EOF)); !errors.As(err, &retry) || retry.Delay != d || retry.Err != io.EOF {
			t.Errorf("RetryIn(%v): got %#v", d, retry)
		}
	}
}

// fragile is an error whose text panics on a nil pointer, as many do.
type fragile struct{ text string }

func (f *fragile) Error() string { return f.text }

func TestANilInnerErrorStillGivesAReason(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"Cancel": job.Cancel(nil), "Discard": job.Discard(nil), "RetryIn": job.RetryIn(time.Second, nil),
	} {
		if !strings.Contains(err.Error(), "no reason given") {
			t.Errorf("%s(nil): got %q, want a text that says so", name, err)
		}
		if errors.Unwrap(err) != nil || errors.Is(err, io.EOF) {
			t.Errorf("%s(nil): got inner error %v, want none", name, errors.Unwrap(err))
		}
	}
	var typed *fragile
	for name, err := range map[string]error{
		"Cancel": job.Cancel(typed), "Discard": job.Discard(typed), "RetryIn": job.RetryIn(time.Second, typed),
	} {
		if !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s of a nil pointer: got %q, want a text that says nil", name, err)
		}
	}
}

// The values whose text panics: with a text, and with themselves, which fmt asks for a text again.
type (
	panicky  struct{}
	selfish  struct{}
	furious  struct{}
	talkback struct{}
)

func (panicky) String() string           { panic("no text") }
func (s selfish) Error() string          { panic(s) }
func (f furious) Format(fmt.State, rune) { panic(f) }
func (talkback) String() string          { panic(fmt.Errorf("talkback: %w", error(selfish{}))) }

func TestAPanicsTextNeverPanics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"a text":                           {"boom", "panic: boom"},
		"an error":                         {http.ErrAbortHandler, "panic: " + http.ErrAbortHandler.Error()},
		"a number":                         {42, "panic: 42"},
		"a String that panics":             {panicky{}, "no text"},
		"an Error that panics with itself": {selfish{}, "panic: "},
		"a Format that panics with itself": {furious{}, "panic: "},
		"a String that panics with such":   {talkback{}, "panic: "},
		"a nil pointer whose Error would":  {(*fragile)(nil), "nil"},
		"a pointer to such":                {&fragile{"sad"}, "panic: sad"},
		"Goexit":                           {nil, "runtime.Goexit was called"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := &job.PanicError{Value: c.value, Stack: "goroutine 1"}
			if got := err.Error(); !strings.Contains(got, c.want) || got == "panic: " {
				t.Errorf("got %q, want a text with %q", got, c.want)
			}
			if strings.Contains(err.Error(), err.Stack) {
				t.Errorf("got %q, want the stack apart", err)
			}
		})
	}
}

func TestAPanicWithAValueThatIsNoErrorWrapsNone(t *testing.T) {
	t.Parallel()
	for _, value := range []any{nil, "boom", 42, panicky{}} {
		if inner := (&job.PanicError{Value: value}).Unwrap(); inner != nil {
			t.Errorf("%T: got %v, want nil", value, inner)
		}
	}
}

func TestTheCausesAreTold(t *testing.T) {
	t.Parallel()
	causes := []error{job.ErrTimeout, job.ErrShutdown, job.ErrLeaseLost, job.ErrCancelled}
	for i, cause := range causes {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		for k, other := range causes {
			if got := errors.Is(context.Cause(ctx), other); got != (i == k) {
				t.Errorf("a context ended by %v: is it %v? got %v, want %v", cause, other, got, i == k)
			}
		}
	}
}

func TestAFailedJobsErrorTellsWhichAndWhy(t *testing.T) {
	t.Parallel()
	id := job.ID{0xff}
	err := fmt.Errorf("await: %w", &job.FailedError{ID: id, Kind: "mail.welcome", State: job.Discarded, Message: "no such host"})
	for _, want := range []string{id.String(), "mail.welcome", "discarded", "no such host"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
	var failed *job.FailedError
	if !errors.As(err, &failed) || failed.State != job.Discarded {
		t.Errorf("got %#v, want the state in it", failed)
	}
}
