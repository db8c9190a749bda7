package cadence

import "time"

// lastYear is the last whose instants every tool can show.
const lastYear = 9998

// next returns the first instant after after at which the expression is due; zero if there is none. It walks from one stretch
// of constant offset to the next: within one, local times and instants run in step.
func (c *Cadence) next(after time.Time) time.Time {
	t := after.Truncate(time.Second).Add(time.Second)
	for t.Year() <= lastYear {
		local := t.In(c.zone)
		start, end := local.ZoneBounds()
		if !end.IsZero() && !end.After(t) {
			// Seen with Go 1.26: on 31 December of a leap year beyond the zone's table, the stretch is said to have ended.
			end = t.Add(time.Hour)
		}
		_, offset := local.Zone()
		from := asCivil(t, offset)
		if !start.IsZero() {
			_, before := start.Add(-time.Second).In(c.zone).Zone()
			switch {
			case before < offset && t.Equal(start):
				// A gap ends here: what it swallowed is due now.
				if at := c.cron.civil(asCivil(start, before)); !at.IsZero() && at.Before(asCivil(start, offset)) {
					return start.UTC()
				}
			case before > offset && !c.cron.interval:
				// These local times have been, in the stretch before.
				if again := asCivil(start, before); from.Before(again) {
					from = again
				}
			}
		}
		at := c.cron.civil(from)
		if at.IsZero() {
			return at
		}
		instant := at.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || instant.Before(end) {
			if instant.Year() > lastYear {
				return time.Time{}
			}
			return instant
		}
		t = end
	}
	return time.Time{}
}

// asCivil returns the local time at an offset, written as if it were UTC.
func asCivil(t time.Time, offset int) time.Time {
	return t.UTC().Add(time.Duration(offset) * time.Second)
}
