package cadence

import (
	"fmt"
	"strings"
	"time"
)

// The limits of a cadence.
const (
	MinEvery     = time.Second
	MaxEvery     = 3660 * 24 * time.Hour // ten years
	maxCronBytes = 256
	maxZoneBytes = 64
)

// Cadence is a rhythm. It is never changed and may be shared.
type Cadence struct {
	every time.Duration // zero: cron
	cron  fields
	zone  *time.Location
}

// Error reports a cadence that is refused.
type Error struct {
	Field string // "Cron", "Zone" or "Every"
	Got   string // shortened
	Limit string // what would be accepted
}

func (e *Error) Error() string { return fmt.Sprintf("%s is %s, want %s", e.Field, e.Got, e.Limit) }

// New returns the cadence of either every or cron in an IANA time zone; an empty zone is UTC. The error is an *Error.
func New(every time.Duration, cron, zone string) (*Cadence, error) {
	switch {
	case every == 0 && cron == "":
		return nil, &Error{"Cron", "empty, and so is Every", "one of the two"}
	case every != 0 && cron != "":
		return nil, &Error{"Every", every.String() + " together with Cron", "one of the two"}
	case every != 0:
		return newEvery(every, zone)
	}
	c := &Cadence{}
	var err error
	if c.zone, err = loadZone(zone); err != nil {
		return nil, err
	}
	if c.cron, err = parse(cron); err != nil {
		return nil, err
	}
	if !c.cron.possible() {
		return nil, &Error{"Cron", quote(cron), "a date that exists"}
	}
	return c, nil
}

func newEvery(every time.Duration, zone string) (*Cadence, error) {
	if zone != "" {
		return nil, &Error{"Zone", quote(zone) + " together with Every", "none: an interval has no zone"}
	}
	if every < MinEvery || every > MaxEvery || every%time.Millisecond != 0 {
		return nil, &Error{"Every", every.String(), "1s to 3660 days in whole milliseconds"}
	}
	return &Cadence{every: every}, nil
}

// loadZone refuses Local, which is another zone on each host.
func loadZone(name string) (*time.Location, error) {
	const limit = `an IANA name such as "Europe/Berlin" that this host knows (import time/tzdata to bring them along)`
	if len(name) > maxZoneBytes || strings.EqualFold(name, "local") {
		return nil, &Error{"Zone", quote(name), limit}
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, &Error{"Zone", quote(name), limit}
	}
	return zone, nil
}

// First returns the first tick of a schedule that begins at now: firstIn later for an interval (zero: one interval), the next
// that the expression names otherwise.
func (c *Cadence) First(now time.Time, firstIn time.Duration) time.Time {
	if c.every == 0 {
		return c.next(now)
	}
	if firstIn == 0 {
		firstIn = c.every
	}
	return now.Add(firstIn).Truncate(time.Microsecond) // what the database keeps
}

// After returns the first tick later than now of the series to which tick belongs. It is the zero time when there is none
// before the year 9999.
func (c *Cadence) After(tick, now time.Time) time.Time {
	if c.every == 0 {
		return c.next(now)
	}
	if tick.After(now) {
		return tick // after a clock that was set back: nothing is due twice
	}
	// By whole intervals, so that the rhythm stays however late we are. The difference of two instants fits into a duration up to
	// 292 years; beyond that it is cut, and the next look goes on from there.
	return tick.Add(now.Sub(tick)/c.every*c.every + c.every)
}

// Due returns the ticks that are due at now, from tick on, oldest first: the latest of them if there are more than limit. next is
// the first that is not due. dropped is how many older ones were left out, counted up to CountLimit.
func (c *Cadence) Due(tick, now time.Time, limit int) (due []time.Time, next time.Time, dropped int) {
	next = c.After(tick, now)
	if tick.After(now) {
		return nil, tick, 0
	}
	due = c.latest(tick, now, limit)
	return due, next, c.count(tick, due[0])
}

// CountLimit is how many ticks that were left out are counted one by one.
const CountLimit = 10_000

// count returns how many ticks there are from tick to before end.
func (c *Cadence) count(tick, end time.Time) (n int) {
	if c.every > 0 {
		return int(min(end.Sub(tick)/c.every, CountLimit))
	}
	for ; n < CountLimit && tick.Before(end) && !tick.IsZero(); n++ {
		tick = c.next(tick)
	}
	return n
}

// latest returns the last limit ticks in [tick, now], at least tick itself.
func (c *Cadence) latest(tick, now time.Time, limit int) []time.Time {
	if c.every > 0 {
		last := now.Sub(tick) / c.every
		first := max(last-time.Duration(limit)+1, 0)
		var due []time.Time
		for k := first; k <= last; k++ {
			due = append(due, tick.Add(k*c.every))
		}
		return due
	}
	// Backwards in steps that double: after a year without a sweeper a schedule of each second has 31 million ticks.
	for span := time.Minute; ; span *= 2 {
		from := now.Add(-span)
		isAll := !from.After(tick)
		if isAll {
			from = tick.Add(-time.Nanosecond)
		}
		var due []time.Time
		for t := c.next(from); !t.After(now) && !t.IsZero(); t = c.next(t) {
			due = append(due, t)
		}
		switch {
		case len(due) >= limit:
			return due[len(due)-limit:]
		case isAll && len(due) > 0:
			return due
		case isAll:
			return []time.Time{tick} // the rules of its zone have changed since it was computed: it stays due
		}
	}
}

func quote(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("%q… (%d bytes)", s[:64], len(s))
	}
	return fmt.Sprintf("%q", s)
}
