package testenv

import (
	"testing"
	"time"
)

// Eventually calls cond until it is true, first every 2 ms, then ever more seldom, at last every 50 ms. When it is still
// false after within, the test ends with the message. It must be called from the test's own goroutine.
func Eventually(tb testing.TB, within time.Duration, cond func() bool, format string, args ...any) {
	tb.Helper()
	deadline := time.Now().Add(within)
	pause := 2 * time.Millisecond
	for {
		// Looked at before cond: a slow machine gets one look after the deadline too.
		late := time.Now().After(deadline)
		if cond() {
			return
		}
		if late {
			tb.Fatalf("after %s: "+format, append([]any{within}, args...)...)
		}
		<-time.After(pause)
		pause = min(pause*5/4+time.Millisecond, 50*time.Millisecond)
	}
}
