package job_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/job"
)

// middle is the random number that leaves a wait as the policy has it: 0.9 + 0.2/2 = 1.
const middle = 0.5

var attempts = []int{0, 1, 10, 23, 27, 31, 32, 62, 63, 64, 119, 1000, math.MaxInt32, -1, math.MinInt64, math.MaxInt64}

func TestTheDefaultBackoffIsTheFourthPowerOfTheAttempt(t *testing.T) {
	t.Parallel()
	for _, b := range []job.Backoff{{}, job.Polynomial()} {
		for attempt, want := range map[int]time.Duration{
			-1: time.Second, 0: time.Second, 1: time.Second, 2: 16 * time.Second, 3: 81 * time.Second, 4: 256 * time.Second,
			10: 10_000 * time.Second, 17: 83_521 * time.Second, 18: 24 * time.Hour, 25: 24 * time.Hour, 1000: 24 * time.Hour,
			math.MaxInt32: 24 * time.Hour,
		} {
			wantAbout(t, b.Delay(attempt, middle), want)
		}
	}
}

// Guard: the doc of Polynomial tells these sums.
func TestTheWaitsBetween25AttemptsAddUpToElevenDays(t *testing.T) {
	t.Parallel()
	var sum, uncut time.Duration
	for attempt := 1; attempt < job.DefaultMaxAttempts; attempt++ {
		sum += job.Polynomial().Delay(attempt, middle)
		uncut += time.Duration(attempt*attempt*attempt*attempt) * time.Second
	}
	if days := sum.Hours() / 24; math.Round(days*10) != 108 {
		t.Errorf("got %.2f days, want 10.8 as documented", days)
	}
	if days := uncut.Hours() / 24; math.Round(days*10) != 204 {
		t.Errorf("without the cap: got %.2f days, want 20.4 as documented", days)
	}
}

func TestExponentialBackoffDoublesUpToItsLimit(t *testing.T) {
	t.Parallel()
	b := job.Exponential(time.Second, time.Minute)
	for attempt, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 6: 32 * time.Second,
		7: time.Minute, 63: time.Minute, 64: time.Minute, 1100: time.Minute, math.MaxInt32: time.Minute,
	} {
		wantAbout(t, b.Delay(attempt, middle), want)
	}
	if got := b.Delay(64, 0.999); got > time.Minute {
		t.Errorf("at the limit with the longest jitter: got %v, want at most 1m0s", got)
	}
}

func wantAbout(t *testing.T, got, want time.Duration) {
	t.Helper()
	if diff := got - want; diff > time.Microsecond || diff < -time.Microsecond { // it is computed in floating point
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestJitterIsTenPercentToEitherSide(t *testing.T) {
	t.Parallel()
	for random, want := range map[float64]time.Duration{0: 9 * time.Second, 0.25: 9500 * time.Millisecond, 0.5: 10 * time.Second, 1: 11 * time.Second} {
		wantAbout(t, job.Fixed(10*time.Second).Delay(3, random), want)
	}
	if got := job.Polynomial().Delay(25, 0.999); got != 24*time.Hour {
		t.Errorf("at the cap with the longest jitter: got %v, want 24h0m0s", got)
	}
	wantAbout(t, job.Polynomial().Delay(25, 0), 24*time.Hour*9/10)
}

func TestNoBackoffIsEverNegativeOrAboveADay(t *testing.T) {
	t.Parallel()
	bases := []time.Duration{30 * time.Millisecond, time.Second, 15 * time.Minute, 0, -time.Second, 1, math.MaxInt64, math.MinInt64}
	limits := []time.Duration{5 * time.Second, 24 * time.Hour, 0, math.MaxInt64, -time.Second, math.MinInt64}
	policies := []job.Backoff{{}, job.Polynomial()}
	for _, base := range bases {
		policies = append(policies, job.Fixed(base))
		for _, limit := range limits {
			policies = append(policies, job.Exponential(base, limit))
		}
	}
	randoms := []float64{0, 0.2, 0.5, 0.999, 1, 2, -1, 1e300, -1e300, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}
	for _, b := range policies {
		for _, attempt := range attempts {
			for _, random := range randoms {
				if got := b.Delay(attempt, random); got < time.Millisecond || got > 24*time.Hour {
					t.Errorf("%q, attempt %d, random %v: got %v, want 1 ms to 24 h", b, attempt, random, got)
				}
			}
		}
	}
}

// anyBackoff draws policies that Options accept.
func anyBackoff() *rapid.Generator[job.Backoff] {
	wait := rapid.Int64Range(int64(time.Millisecond), int64(job.MaxBackoff))
	return rapid.Custom(func(t *rapid.T) job.Backoff {
		a, b := time.Duration(wait.Draw(t, "a")), time.Duration(wait.Draw(t, "b"))
		switch rapid.IntRange(0, 3).Draw(t, "shape") {
		case 0:
			return job.Backoff{}
		case 1:
			return job.Polynomial()
		case 2:
			return job.Fixed(a)
		}
		return job.Exponential(min(a, b), max(a, b))
	})
}

func TestAnyBackoffStaysInBoundsAndNeverFalls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := anyBackoff().Draw(t, "policy")
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		start := rapid.OneOf(rapid.IntRange(-2, 200), rapid.Int()).Draw(t, "attempt")
		last, lastJittered := time.Duration(0), time.Duration(0)
		for attempt := start; attempt >= start && attempt < start+1000; attempt++ {
			plain, jittered := b.Delay(attempt, middle), b.Delay(attempt, random)
			if plain < last || jittered < lastJittered {
				t.Fatalf("%q, attempt %d: got %v and %v after %v and %v, want no less", b, attempt, plain, jittered, last, lastJittered)
			}
			if jittered < time.Millisecond || jittered > job.MaxBackoff {
				t.Fatalf("%q, attempt %d: got %v, want 1 ms to 24 h", b, attempt, jittered)
			}
			if off := jittered.Seconds() / plain.Seconds(); off < 0.8999 || off > 1.1001 {
				t.Fatalf("%q, attempt %d: got %v for %v, want it within 10 %%", b, attempt, jittered, plain)
			}
			last, lastJittered = plain, jittered
		}
	})
}

func TestAnyBackoffIsReadBackFromItsText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := anyBackoff().Draw(t, "policy")
		got, err := job.ParseBackoff(b.String())
		if err != nil || got != b {
			t.Fatalf("ParseBackoff(%q): got %q, %v, want it again", b, got, err)
		}
		if got.IsZero() != (b.String() == "") || len(b.String()) > 64 {
			t.Fatalf("%q: got IsZero %v and %d bytes, want the zero policy alone empty, none above 64 bytes", b, got.IsZero(), len(b.String()))
		}
	})
}

func TestBackoffTextsAreWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]job.Backoff{
		"": {}, "poly": job.Polynomial(), "exp 1s 1h0m0s": job.Exponential(time.Second, time.Hour), "fixed 5s": job.Fixed(5 * time.Second),
	} {
		if got, err := job.ParseBackoff(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for text, limit := range map[string]string{
		"linear": "poly", "poly 1s": "poly", "exp": "exp BASE CAP", "exp 1s": "exp BASE CAP", "exp 1s 2s 3s": "exp BASE CAP",
		"fixed": "fixed WAIT", "fixed 1s 2s": "fixed WAIT", "fixed 5": "fixed WAIT", "fixed x": "fixed WAIT", "POLY": "poly", "1s": "poly",
		"exp 1s 25h": "24h", "exp 2s 1s": "base <= cap", "fixed 0s": "1ms", "fixed -5s": "1ms", "fixed 999µs": "1ms", "fixed 24h1ns": "24h",
		"fixed 5s" + strings.Repeat(" ", 60): "fixed WAIT", strings.Repeat("exp ", 1<<16): "exp BASE CAP", "fixed 5s\x00": "fixed WAIT",
	} {
		got, err := job.ParseBackoff(text)
		wantField(t, err, "Backoff", limit)
		if !got.IsZero() {
			t.Errorf("%.40q: got %q beside the error, want none", text, got)
		}
	}
}

func FuzzParseBackoff(f *testing.F) {
	for _, s := range []string{"", "poly", "exp 1s 1h0m0s", "fixed 5s", "fixed 1e9h", "exp -1s 9999999h", "exp  1s\t2s", "fixed 0.000001s"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, attempt int) {
		b, err := job.ParseBackoff(s)
		if err != nil {
			wantField(t, err, "Backoff", "")
			return
		}
		if again, err := job.ParseBackoff(b.String()); err != nil || again != b {
			t.Errorf("%q: got %q, %v from its own text %q", s, again, err, b)
		}
		if _, err := (job.Options{Backoff: b}).Complete(); err != nil {
			t.Errorf("%q: Options refuse what was read: %v", s, err)
		}
		if d := b.Delay(attempt, middle); d < time.Millisecond || d > job.MaxBackoff {
			t.Errorf("%q, attempt %d: got %v, want 1 ms to 24 h", s, attempt, d)
		}
	})
}
