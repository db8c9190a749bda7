package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// Every return of a handler, with every reason for which its context can have ended. The words are verb and, where the
// attempt is written down, outcome.
func TestEveryReturnWithEveryCauseHasItsVerdict(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	causes := []struct {
		name string
		err  error
	}{
		{"none", nil}, {"timeout", job.ErrTimeout}, {"shutdown", job.ErrShutdown}, {"cancelled", job.ErrCancelled},
	}
	cases := []struct {
		name string
		err  error
		want [4]string // by cause
	}{
		{"nil", nil, [4]string{"complete", "retry timed out", "complete", "complete"}},
		{"an error", plain, [4]string{"retry failed", "retry timed out", "release", "bury cancelled"}},
		{"the context's error", context.Canceled, [4]string{"retry failed", "retry timed out", "release", "bury cancelled"}},
		{"Cancel", job.Cancel(plain), [4]string{"bury cancelled", "bury cancelled", "bury cancelled", "bury cancelled"}},
		{"Discard", job.Discard(plain), [4]string{"bury discarded", "bury discarded", "bury discarded", "bury discarded"}},
		{"a wrapped Discard", fmt.Errorf("x: %w", job.Discard(plain)), [4]string{"bury discarded", "bury discarded", "bury discarded", "bury discarded"}},
		{"Snooze", job.Snooze(time.Minute), [4]string{"retry back", "retry timed out", "retry back", "retry back"}},
		{"RetryIn", job.RetryIn(time.Minute, plain), [4]string{"retry failed", "retry timed out", "release", "bury cancelled"}},
		{"a panic", &job.PanicError{Value: "x"}, [4]string{"retry failed", "retry timed out", "retry failed", "retry failed"}},
		{"a panic with a Cancel", &job.PanicError{Value: job.Cancel(plain)}, [4]string{"retry failed", "retry timed out", "retry failed", "retry failed"}},
		{"a panic with a Snooze", &job.PanicError{Value: job.Snooze(1)}, [4]string{"retry failed", "retry timed out", "retry failed", "retry failed"}},
		{"Goexit", &job.PanicError{}, [4]string{"retry failed", "retry timed out", "retry failed", "retry failed"}},
		{"a panic and a Cancel", errors.Join(&job.PanicError{Value: "x"}, job.Cancel(plain)), [4]string{"retry failed", "retry timed out", "retry failed", "retry failed"}},
	}
	for _, c := range cases {
		for i, cause := range causes {
			row := job.Row{Attempt: 1, MaxAttempts: 2}
			v := judgeSafely(&row, job.Fixed(time.Second), c.err, cause.err, time.Millisecond)
			if got := words(v); got != c.want[i] {
				t.Errorf("%s, cause %s: %s, want %s", c.name, cause.name, got, c.want[i])
			}
		}
	}
}

func words(v verdict) string {
	verb := []string{complete: "complete", retry: "retry", bury: "bury", release: "release"}[v.verb]
	switch {
	case v.failure.Back:
		return verb + " back"
	case v.failure.Outcome != "":
		return verb + " " + v.failure.Outcome
	}
	return verb
}

func TestTheLastAttemptIsDiscarded(t *testing.T) {
	t.Parallel()
	for attempt, want := range map[int]string{1: "retry failed", 3: "bury failed", 4: "bury failed"} {
		row := job.Row{Attempt: attempt, MaxAttempts: 3}
		v := judge(&row, job.Backoff{}, errors.New("x"), nil, 0)
		if got := words(v); got != want || want[:4] == "bury" && v.next().State != job.Discarded {
			t.Errorf("attempt %d: %s, next %+v", attempt, got, v.next())
		}
	}
}

func TestRetryInIsObeyedWithinItsBounds(t *testing.T) {
	t.Parallel()
	row := job.Row{Attempt: 1, MaxAttempts: 2}
	for _, c := range []struct {
		ask   time.Duration
		obeys bool
	}{
		{1, true}, {time.Minute, true}, {maxRetryIn, true},
		{0, false}, {-1, false}, {math.MinInt64, false}, {maxRetryIn + 1, false}, {math.MaxInt64, false},
	} {
		v := judge(&row, job.Fixed(time.Hour), job.RetryIn(c.ask, errors.New("x")), nil, 0)
		obeyed := v.failure.Wait == c.ask
		if obeyed != c.obeys || (v.warning == "") != c.obeys || v.failure.Error != "x" {
			t.Errorf("RetryIn(%v): wait %v, warning %q, error %q", c.ask, v.failure.Wait, v.warning, v.failure.Error)
		}
		if !c.obeys && (v.failure.Wait < 50*time.Minute || v.failure.Wait > 70*time.Minute) {
			t.Errorf("RetryIn(%v): wait %v is not the backoff", c.ask, v.failure.Wait)
		}
	}
	for ask, want := range map[time.Duration]time.Duration{-1: 0, 0: 0, time.Minute: time.Minute, math.MaxInt64: maxRetryIn} {
		if v := judge(&row, job.Backoff{}, job.Snooze(ask), nil, 0); v.failure.Wait != want {
			t.Errorf("Snooze(%v): wait %v", ask, v.failure.Wait)
		}
	}
}

func TestAHugeAttemptNeverRetriesAtOnce(t *testing.T) {
	t.Parallel()
	for _, attempt := range []int{1, 31, 32, 62, 63, 64, 119, 1000, math.MaxInt32 - 1} {
		row := job.Row{Attempt: attempt, MaxAttempts: math.MaxInt32}
		v := judge(&row, job.Exponential(time.Second, time.Hour), errors.New("x"), nil, 0)
		if v.failure.Wait < 900*time.Millisecond || v.failure.Wait > time.Hour {
			t.Errorf("attempt %d waits %v", attempt, v.failure.Wait)
		}
	}
}

type brokenError struct{ inner error }

func (e *brokenError) Error() string { return e.inner.Error() }
func (e *brokenError) Unwrap() error { return e.inner }

type panicsTwice struct{}

func (panicsTwice) Error() string  { panic(panicsTwice{}) }
func (panicsTwice) String() string { panic(panicsTwice{}) }

func TestAnErrorWhoseMethodsPanicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	row := job.Row{Attempt: 1, MaxAttempts: 2}
	for name, err := range map[string]error{
		"a nil pointer": (*brokenError)(nil), "a nil Cancel": (*job.CancelError)(nil), "a nil Discard": (*job.DiscardError)(nil),
		"a nil Snooze": (*job.SnoozeError)(nil), "one that panics for ever": panicsTwice{},
		"a panic with one that panics for ever": &job.PanicError{Value: panicsTwice{}},
	} {
		for _, cause := range []error{nil, job.ErrTimeout} {
			v := judgeSafely(&row, job.Backoff{}, err, cause, 0)
			if !strings.HasPrefix(words(v), "retry") || v.failure.Error == "" || v.failure.Back {
				t.Errorf("%s, cause %v: %+v", name, cause, v)
			}
		}
	}
}
