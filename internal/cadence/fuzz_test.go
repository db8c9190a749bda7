package cadence_test

import (
	"testing"
	"time"

	"github.com/weirq/weir/internal/cadence"
)

// Whatever is written in its place, an expression is refused or has ticks that rise; nothing panics or runs on for ever.
func FuzzCron(f *testing.F) {
	for _, s := range []string{"* * * * *", "0 0 29 2 *", "TZ=", "@daily", "*/7 1-5 ? jan-mar fri", "0 0 31 4 *", "1,,2 * * * *", "H H * * *", "0 0 L * *", "59 59 23 31 12 7"} {
		f.Add(s, "Europe/Berlin", int64(2_240_000_000))
	}
	f.Fuzz(func(t *testing.T, cron, zone string, seconds int64) {
		c, err := cadence.New(0, cron, zone)
		if err != nil {
			return
		}
		at := time.Unix(seconds%(200*365*86400), 0)
		for range 5 {
			next := c.After(at, at)
			if next.IsZero() {
				return
			}
			if !next.After(at) || next.Nanosecond() != 0 {
				t.Fatalf("%q in %q: %v is followed by %v", cron, zone, at, next)
			}
			at = next
		}
	})
}
