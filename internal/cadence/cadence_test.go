package cadence_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the table must not depend on the host's

	"github.com/weirq/weir/internal/cadence"
)

func mustCron(t testing.TB, cron, zone string) *cadence.Cadence {
	t.Helper()
	c, err := cadence.New(0, cron, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ticks returns the n ticks after from, in local time with its offset.
func ticks(t testing.TB, c *cadence.Cadence, from, zone string, n int) []string {
	t.Helper()
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for range n {
		at = c.After(at, at)
		out = append(out, at.In(loc).Format("2006-01-02T15:04:05-0700"))
	}
	return out
}

// The golden table: what is due around the changes of the clock, on leap days and at the end of the year.
func TestCronIsDueWhenItsZoneSays(t *testing.T) {
	t.Parallel()
	const york, berlin, howe = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"
	for name, c := range map[string]struct {
		zone, cron, from string
		want             string
	}{
		"New York, gap: a daily time that is left out is due at the change": {york, "30 2 * * *", "2025-03-07T12:00:00Z",
			"2025-03-08T02:30:00-0500 2025-03-09T03:00:00-0400 2025-03-10T02:30:00-0400"},
		"New York, gap: the first minute of it": {york, "0 2 * * *", "2025-03-08T12:00:00Z",
			"2025-03-09T03:00:00-0400 2025-03-10T02:00:00-0400"},
		"New York, gap: two times in it are due once": {york, "15,45 2 * * *", "2025-03-08T12:00:00Z",
			"2025-03-09T03:00:00-0400 2025-03-10T02:15:00-0400 2025-03-10T02:45:00-0400"},
		"New York, gap: one in it and one at its end are due once": {york, "0 2,3 * * *", "2025-03-08T12:00:00Z",
			"2025-03-09T03:00:00-0400 2025-03-10T02:00:00-0400 2025-03-10T03:00:00-0400"},
		"New York, gap: every second hour keeps its distance": {york, "0 */2 * * *", "2025-03-09T04:59:59Z",
			"2025-03-09T00:00:00-0500 2025-03-09T03:00:00-0400 2025-03-09T04:00:00-0400 2025-03-09T06:00:00-0400"},
		"New York, gap: quarters of an hour go on": {york, "*/15 * * * *", "2025-03-09T06:30:00Z",
			"2025-03-09T01:45:00-0500 2025-03-09T03:00:00-0400 2025-03-09T03:15:00-0400"},
		"New York, overlap: a daily time comes once, the first time": {york, "30 1 * * *", "2025-11-01T12:00:00Z",
			"2025-11-02T01:30:00-0400 2025-11-03T01:30:00-0500"},
		"New York, overlap: its first minute": {york, "0 1 * * *", "2025-11-01T12:00:00Z",
			"2025-11-02T01:00:00-0400 2025-11-03T01:00:00-0500"},
		"New York, overlap: the hour of its end": {york, "0 2 * * *", "2025-11-01T12:00:00Z",
			"2025-11-02T02:00:00-0500 2025-11-03T02:00:00-0500"},
		"New York, overlap: asked in the repeated hour": {york, "30 1 * * *", "2025-11-02T06:10:00Z",
			"2025-11-03T01:30:00-0500"},
		"New York, overlap: each hour": {york, "0 * * * *", "2025-11-02T04:30:00Z",
			"2025-11-02T01:00:00-0400 2025-11-02T01:00:00-0500 2025-11-02T02:00:00-0500"},
		"New York, overlap: @hourly": {york, "@hourly", "2025-11-02T04:30:00Z",
			"2025-11-02T01:00:00-0400 2025-11-02T01:00:00-0500 2025-11-02T02:00:00-0500"},
		"New York, overlap: an interval within one hour": {york, "*/30 1 * * *", "2025-11-02T04:30:00Z",
			"2025-11-02T01:00:00-0400 2025-11-02T01:30:00-0400 2025-11-02T01:00:00-0500 2025-11-02T01:30:00-0500 2025-11-03T01:00:00-0500"},
		"New York, overlap: the same as a list of times": {york, "0,30 1 * * *", "2025-11-02T04:30:00Z",
			"2025-11-02T01:00:00-0400 2025-11-02T01:30:00-0400 2025-11-03T01:00:00-0500"},
		"Los Angeles, gap: 02:00": {"America/Los_Angeles", "0 2 * * *", "2025-03-08T12:00:00Z",
			"2025-03-09T03:00:00-0700 2025-03-10T02:00:00-0700"},
		"Berlin, gap": {berlin, "30 2 * * *", "2025-03-29T12:00:00Z",
			"2025-03-30T03:00:00+0200 2025-03-31T02:30:00+0200"},
		"Berlin, gap: hours of a range": {berlin, "0 2-4 * * *", "2025-03-29T12:00:00Z",
			"2025-03-30T03:00:00+0200 2025-03-30T04:00:00+0200 2025-03-31T02:00:00+0200"},
		"Berlin, overlap: 02:05 once": {berlin, "5 2 * * *", "2024-10-26T12:00:00Z",
			"2024-10-27T02:05:00+0200 2024-10-28T02:05:00+0100"},
		"Berlin, overlap: ten minutes": {berlin, "*/10 * * * *", "2024-10-27T00:40:00Z",
			"2024-10-27T02:50:00+0200 2024-10-27T02:00:00+0100 2024-10-27T02:10:00+0100"},
		"Berlin, working days": {berlin, "0 6 * * 1-5", "2025-03-28T12:00:00Z",
			"2025-03-31T06:00:00+0200 2025-04-01T06:00:00+0200"},
		"Lord Howe, gap of half an hour": {howe, "15 2 * * *", "2025-10-03T22:00:00Z",
			"2025-10-05T02:30:00+1100 2025-10-06T02:15:00+1100"},
		"Lord Howe, gap: 02:00": {howe, "0 2 * * *", "2025-10-03T22:00:00Z",
			"2025-10-05T02:30:00+1100 2025-10-06T02:00:00+1100"},
		"Lord Howe, gap: a time after it": {howe, "45 2 * * *", "2025-10-03T22:00:00Z",
			"2025-10-05T02:45:00+1100 2025-10-06T02:45:00+1100"},
		"Lord Howe, gap: ten minutes": {howe, "*/10 * * * *", "2025-10-04T15:10:00Z",
			"2025-10-05T01:50:00+1030 2025-10-05T02:30:00+1100 2025-10-05T02:40:00+1100"},
		"Lord Howe, overlap: 01:45 once": {howe, "45 1 * * *", "2025-04-04T22:00:00Z",
			"2025-04-06T01:45:00+1100 2025-04-07T01:45:00+1030"},
		"Lord Howe, overlap: 01:15 is not repeated": {howe, "15 1 * * *", "2025-04-04T22:00:00Z",
			"2025-04-06T01:15:00+1100 2025-04-07T01:15:00+1030"},
		"Lord Howe, overlap: each hour": {howe, "0 * * * *", "2025-04-05T13:30:00Z",
			"2025-04-06T01:00:00+1100 2025-04-06T02:00:00+1030 2025-04-06T03:00:00+1030"},
		"Lord Howe, overlap: each half hour": {howe, "*/30 * * * *", "2025-04-05T13:30:00Z",
			"2025-04-06T01:00:00+1100 2025-04-06T01:30:00+1100 2025-04-06T01:30:00+1030 2025-04-06T02:00:00+1030"},
		"Kolkata": {"Asia/Kolkata", "30 5 * * *", "2025-03-01T00:00:00Z",
			"2025-03-02T05:30:00+0530 2025-03-03T05:30:00+0530"},
		"Santiago, midnight is left out": {"America/Santiago", "@daily", "2025-09-06T12:00:00Z",
			"2025-09-07T01:00:00-0300 2025-09-08T00:00:00-0300"},
		"Beirut, midnight is left out": {"Asia/Beirut", "0 0 * * *", "2025-03-29T12:00:00Z",
			"2025-03-30T01:00:00+0300 2025-03-31T00:00:00+0300"},
		"Apia, a day is left out": {"Pacific/Apia", "0 12 30 12 *", "2011-12-01T00:00:00Z",
			"2011-12-31T00:00:00+1400 2012-12-30T12:00:00+1400"},
		"a leap day": {"", "0 12 29 2 *", "2025-01-01T00:00:00Z",
			"2028-02-29T12:00:00+0000 2032-02-29T12:00:00+0000"},
		"a leap day over the year 2100": {"", "0 0 29 2 *", "2096-03-01T00:00:00Z",
			"2104-02-29T00:00:00+0000 2108-02-29T00:00:00+0000"},
		"the end of the year": {berlin, "59 23 31 12 *", "2025-12-31T22:58:59Z",
			"2025-12-31T23:59:00+0100 2026-12-31T23:59:00+0100"},
		"the beginning of the year": {berlin, "@yearly", "2025-12-31T22:59:59Z",
			"2026-01-01T00:00:00+0100 2027-01-01T00:00:00+0100"},
		"31st": {"", "0 0 31 * *", "2025-01-31T00:00:00Z",
			"2025-03-31T00:00:00+0000 2025-05-31T00:00:00+0000"},
		"Sunday as 7": {"", "0 0 * * 7", "2025-12-31T00:00:00Z",
			"2026-01-04T00:00:00+0000 2026-01-11T00:00:00+0000"},
		"a range over the end of the week": {"", "0 0 * * fri-mon", "2026-01-05T00:00:00Z",
			"2026-01-09T00:00:00+0000 2026-01-10T00:00:00+0000"},
		"either field of the day": {"", "0 0 13 * fri", "2026-02-01T00:00:00Z",
			"2026-02-06T00:00:00+0000 2026-02-13T00:00:00+0000 2026-02-20T00:00:00+0000"},
		"six fields: seconds": {"", "*/20 * * * * *", "2026-01-01T00:00:01Z",
			"2026-01-01T00:00:20+0000 2026-01-01T00:00:40+0000 2026-01-01T00:01:00+0000"},
		"six fields: one second of a day": {"", "30 59 23 * * *", "2026-01-01T23:59:30Z",
			"2026-01-02T23:59:30+0000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := strings.Fields(c.want)
			got := ticks(t, mustCron(t, c.cron, c.zone), c.from, c.zone, len(want))
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s:\ngot  %s\nwant %s", c.cron, strings.Join(got, " "), c.want)
			}
		})
	}
}

// 30 February and the like: refused, at once and without a panic, by a field that is named.
func TestWhatCannotBeDueIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every      time.Duration
		cron, zone string
		field      string
	}{
		"nothing":                           {0, "", "", "Cron"},
		"both":                              {time.Minute, "* * * * *", "", "Every"},
		"0s":                                {0, "@every 0s", "", "Cron"},
		"a negative interval":               {-time.Second, "", "", "Every"},
		"a nanosecond":                      {time.Nanosecond, "", "", "Every"},
		"a tenth of a millisecond too many": {time.Second + 100*time.Microsecond, "", "", "Every"},
		"three centuries":                   {1<<63 - 1, "", "", "Every"},
		"an interval with a zone":           {time.Minute, "", "Europe/Berlin", "Zone"},
		"30 February":                       {0, "0 0 30 2 *", "", "Cron"},
		"31 April":                          {0, "0 0 31 4 *", "", "Cron"},
		"31 of the short months":            {0, "0 0 31 2,4,6,9,11 *", "", "Cron"},
		"a zone in the expression":          {0, "TZ=Europe/Rome 0 2 * * *", "", "Cron"},
		"a zone alone":                      {0, "TZ=Europe/Rome", "", "Cron"},
		"CRON_TZ alone":                     {0, "CRON_TZ=UTC", "", "Cron"},
		"TZ=":                               {0, "TZ=", "", "Cron"},
		"an empty zone":                     {0, "TZ= * * * * *", "", "Cron"},
		"an unknown zone in it":             {0, "TZ=No/Where 0 2 * * *", "", "Cron"},
		"@every 1s":                         {0, "@every 1s", "", "Cron"},
		"@every -1s":                        {0, "@every -1s", "", "Cron"},
		"an unknown nickname":               {0, "@fortnightly", "", "Cron"},
		"more after a nickname":             {0, "@daily 3", "", "Cron"},
		"minute 60":                         {0, "60 * * * *", "", "Cron"},
		"hour 24":                           {0, "0 24 * * *", "", "Cron"},
		"day 0":                             {0, "0 0 0 * *", "", "Cron"},
		"month 13":                          {0, "0 0 1 13 *", "", "Cron"},
		"a step of 0":                       {0, "*/0 * * * *", "", "Cron"},
		"an empty item":                     {0, "1,,2 * * * *", "", "Cron"},
		"a letter":                          {0, "x * * * *", "", "Cron"},
		"the last day":                      {0, "0 0 L * *", "", "Cron"},
		"four fields":                       {0, "* * * *", "", "Cron"},
		"seven fields":                      {0, "0 0 0 1 1 * 2030", "", "Cron"},
		"spaces":                            {0, "   ", "", "Cron"},
		"10 kB":                             {0, strings.Repeat("1,", 5000) + "1 * * * *", "", "Cron"},
		"a zone that is not":                {0, "0 2 * * *", "No/Where", "Zone"},
		"the host's own zone":               {0, "0 2 * * *", "Local", "Zone"},
		"a path as a zone":                  {0, "0 2 * * *", "../../etc/passwd", "Zone"},
		"a long zone":                       {0, "0 2 * * *", strings.Repeat("Z", 1000), "Zone"},
		"a NUL":                             {0, "0 2 * * *\x00", "", "Cron"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := cadence.New(c.every, c.cron, c.zone)
			var fault *cadence.Error
			if !errors.As(err, &fault) || fault.Field != c.field || len(err.Error()) > 400 {
				t.Errorf("got %v, want a fault of %s", err, c.field)
			}
			if took := time.Since(began); took > time.Second { // 10 ms by itself
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestAnIntervalKeepsItsRhythm(t *testing.T) {
	t.Parallel()
	c, err := cadence.New(90*time.Second, "", "")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := c.First(now, 0); !got.Equal(now.Add(90 * time.Second)) {
		t.Errorf("the first is at %v", got)
	}
	first := c.First(now, 10*time.Second)
	if !first.Equal(now.Add(10 * time.Second)) {
		t.Errorf("the first is at %v", first)
	}
	for late, want := range map[time.Duration]time.Duration{
		0: 90 * time.Second, time.Millisecond: 90 * time.Second, 89 * time.Second: 90 * time.Second, 90 * time.Second: 180 * time.Second,
		10000 * 90 * time.Second: 10001 * 90 * time.Second, -time.Hour: 0,
	} {
		if got := c.After(first, first.Add(late)); !got.Equal(first.Add(want)) {
			t.Errorf("%v late: the next is %v after the tick, want %v", late, got.Sub(first), want)
		}
	}
}

func TestDueTicksAreTheLatestInOrder(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	second, err := cadence.New(time.Second, "", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cadence      *cadence.Cadence
		late         time.Duration
		limit        int
		due, dropped int
	}{
		"an interval on time":          {second, 0, 100, 1, 0},
		"an interval a minute late":    {second, time.Minute, 100, 61, 0},
		"an interval, a limit":         {second, time.Minute, 10, 10, 51},
		"an interval, only the latest": {second, time.Minute, 1, 1, 60},
		"an interval a year late":      {second, 365 * 24 * time.Hour, 100, 100, cadence.CountLimit},
		"cron on time":                 {mustCron(t, "* * * * * *", ""), 0, 100, 1, 0},
		"cron a minute late":           {mustCron(t, "* * * * * *", ""), time.Minute, 100, 61, 0},
		"cron, a limit":                {mustCron(t, "* * * * * *", ""), time.Minute, 10, 10, 51},
		"cron a year late":             {mustCron(t, "* * * * * *", ""), 365 * 24 * time.Hour, 100, 100, cadence.CountLimit},
		"a daily one ten days late":    {mustCron(t, "0 0 * * *", ""), 10*24*time.Hour + time.Hour, 100, 11, 0},
		"a yearly one ten years late":  {mustCron(t, "0 0 1 1 *", ""), 3660 * 24 * time.Hour, 3, 3, 8},
		"not due":                      {second, -time.Second, 100, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := start.Add(c.late)
			due, next, dropped := c.cadence.Due(start, now, c.limit)
			if len(due) != c.due || dropped != c.dropped {
				t.Fatalf("%d are due and %d dropped, want %d and %d", len(due), dropped, c.due, c.dropped)
			}
			for i, at := range due {
				if at.Before(start) || at.After(now) || i > 0 && !due[i-1].Before(at) {
					t.Errorf("tick %d at %v", i, at)
				}
			}
			if !next.After(now) || len(due) > 0 && !c.cadence.After(due[len(due)-1], due[len(due)-1]).Equal(next) {
				t.Errorf("the next is at %v", next)
			}
		})
	}
}

// B55: whatever the clock does, each tick comes once, since the next is counted from the last.
func TestAClockThatIsSetBackRepeatsNoTick(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*cadence.Cadence{"cron": mustCron(t, "*/5 * * * *", "Europe/Berlin"), "interval": every(t, 5*time.Minute)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			next := c.First(now, 0)
			var last time.Time
			for i := range 2000 {
				now = now.Add(time.Minute)
				switch i % 97 {
				case 13:
					now = now.Add(-3 * time.Second)
				case 50:
					now = now.Add(-20 * time.Minute)
				case 70:
					now = now.Add(time.Hour)
				}
				due, after, _ := c.Due(next, now, 1)
				for _, at := range due {
					if !at.After(last) || at.After(now) {
						t.Fatalf("tick %v after %v, at %v", at, last, now)
					}
					last = at
				}
				next = after
			}
		})
	}
}

// Beyond the years that a zone's table lists, its rule goes on. time.Time.ZoneBounds is wrong there on the last day of leap years.
func TestADailyTimeComesOnceADayForEightyYears(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			loc, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			for _, cron := range []string{"30 2 * * *", "0 0 * * *", "59 23 * * *"} {
				c := mustCron(t, cron, zone)
				at := time.Date(2026, 1, 1, 12, 0, 0, 0, loc)
				for at.Year() < 2106 {
					next := c.After(at, at)
					y, m, d := at.In(loc).Date()
					if got := next.In(loc); got.Format(time.DateOnly) != time.Date(y, m, d+1, 12, 0, 0, 0, loc).Format(time.DateOnly) && (y != 2026 || m != 1 || d != 1) {
						t.Fatalf("%s: %v is followed by %v", cron, at.In(loc), got)
					}
					at = next
				}
			}
		})
	}
}

func every(t testing.TB, d time.Duration) *cadence.Cadence {
	t.Helper()
	c, err := cadence.New(d, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func BenchmarkNext(b *testing.B) {
	c := mustCron(b, "30 2 * * 1-5", "Europe/Berlin")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		at = c.After(at, at)
		if at.Year() > 2100 {
			at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		}
	}
}
