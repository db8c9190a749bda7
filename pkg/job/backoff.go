package job

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// MaxBackoff is the longest wait after a failed attempt; every policy is cut there.
const MaxBackoff = 24 * time.Hour

// Backoff is how long a job waits after a failed attempt. The zero Backoff means "the default".
// It is a plain value, so it can be stored with the job and compared.
type Backoff struct {
	shape     string // "", "poly", "exp", "fixed"
	base, cap time.Duration
}

// Polynomial waits attempt⁴ seconds: 1 s, 16 s, 81 s, 4 min, … up to 24 h, which it reaches after attempt 18. It is
// the default. (The formula is Sidekiq's without its constant. The 24 waits between 25 attempts add up to 10.8 days;
// without the cap they would to 20.4.)
func Polynomial() Backoff { return Backoff{shape: "poly", base: time.Second, cap: MaxBackoff} }

// Exponential waits base, 2·base, 4·base, … at most limit. Both are 1 ms to 24 h, base not above limit.
func Exponential(base, limit time.Duration) Backoff {
	return Backoff{shape: "exp", base: base, cap: limit}
}

// Fixed waits d after every failure, 1 ms to 24 h.
func Fixed(d time.Duration) Backoff { return Backoff{shape: "fixed", base: d, cap: d} }

// Delay returns the wait before the next attempt after attempt (from 1) has failed: the policy's, ± 10 % by random in
// [0, 1), never below 1 ms, above 24 h or above Exponential's limit. It is safe for every input: an attempt below 1
// counts as 1.
func (b Backoff) Delay(attempt int, random float64) time.Duration {
	if b.shape == "" {
		b = Polynomial()
	}
	n, limit := float64(max(attempt, 1)), MaxBackoff
	seconds := b.base.Seconds() // in floating point: a huge attempt gives +Inf, which the cap cuts, never a negative number
	switch b.shape {
	case "poly":
		seconds *= n * n * n * n
	case "exp":
		seconds *= math.Pow(2, n-1)
		limit = min(limit, b.cap)
	}
	seconds = min(seconds, min(b.cap, MaxBackoff).Seconds())
	// Cut before the conversion: what a float beyond int64 converts to depends on the machine.
	seconds = min(seconds*(0.9+0.2*random), limit.Seconds())
	if !(seconds > 0.001) { // also catches NaN
		return time.Millisecond
	}
	return time.Duration(seconds * float64(time.Second))
}

// IsZero reports whether nothing was chosen.
func (b Backoff) IsZero() bool { return b == Backoff{} }

// String returns the stored form: "", "poly", "exp 1s 1h0m0s" or "fixed 5s".
func (b Backoff) String() string {
	switch b.shape {
	case "exp":
		return "exp " + b.base.String() + " " + b.cap.String()
	case "fixed":
		return "fixed " + b.base.String()
	}
	return b.shape
}

// ParseBackoff reads what String returns. The error is a *FieldError of field "Backoff".
func ParseBackoff(s string) (Backoff, error) {
	b, ok := parseBackoff(strings.Fields(s))
	if !ok || len(s) > 64 {
		return Backoff{}, &FieldError{Field: "Backoff", Got: quoteShort(s), Limit: `"poly", "exp BASE CAP" or "fixed WAIT"`}
	}
	if err := b.validate(); err != nil {
		return Backoff{}, err
	}
	return b, nil
}

func parseBackoff(words []string) (Backoff, bool) {
	var d [2]time.Duration
	for i, w := range words {
		if i == 0 {
			continue
		}
		var err error
		if i > 2 {
			return Backoff{}, false
		}
		if d[i-1], err = time.ParseDuration(w); err != nil {
			return Backoff{}, false
		}
	}
	switch {
	case len(words) == 0:
		return Backoff{}, true
	case len(words) == 1 && words[0] == "poly":
		return Polynomial(), true
	case len(words) == 3 && words[0] == "exp":
		return Exponential(d[0], d[1]), true
	case len(words) == 2 && words[0] == "fixed":
		return Fixed(d[0]), true
	}
	return Backoff{}, false
}

func (b Backoff) validate() error {
	if b.IsZero() {
		return nil
	}
	if b.base < time.Millisecond || b.cap < b.base || b.cap > MaxBackoff {
		return &FieldError{Field: "Backoff", Got: fmt.Sprintf("base %v, cap %v", b.base, b.cap), Limit: "1ms <= base <= cap <= 24h"}
	}
	return nil
}
