package cadence_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/cadence"
)

// wall says which instants there are for what a clock on the wall shows, minute by minute.
type wall map[time.Time][]time.Time

func newWall(zone *time.Location, from, to time.Time) wall {
	w := wall{}
	for at := from.Add(-48 * time.Hour); at.Before(to.Add(48 * time.Hour)); at = at.Add(time.Minute) {
		local := civil(at.In(zone))
		w[local] = append(w[local], at)
	}
	return w
}

// due says by another way what is due in [from, to): it looks at each minute, and knows nothing of offsets.
func (w wall) due(set func(local time.Time) bool, interval bool, from, to time.Time) []time.Time {
	var due []time.Time
	for local := from.Add(-24 * time.Hour); local.Before(to.Add(24 * time.Hour)); local = local.Add(time.Minute) {
		if !set(local) {
			continue
		}
		instants := w[local]
		switch {
		case len(instants) == 0: // left out: the first minute that is shown later
			later := local
			for len(w[later]) == 0 {
				later = later.Add(time.Minute)
			}
			due = append(due, w[later][0])
		case interval:
			due = append(due, instants...)
		default:
			due = append(due, instants[0])
		}
	}
	slices.SortFunc(due, time.Time.Compare)
	due = slices.CompactFunc(due, time.Time.Equal)
	return slices.DeleteFunc(due, func(at time.Time) bool { return at.Before(from) || !at.Before(to) })
}

func civil(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
}

// randomSet returns a list of numbers of [low, high], as a field and as a set.
func randomSet(low, high int) (field string, set map[int]bool) {
	set = map[int]bool{}
	var words []string
	for range 1 + rand.IntN(3) {
		n := low + rand.IntN(high-low+1)
		set[n] = true
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ","), set
}

func TestCronAgreesWithAWalkThroughEachMinuteAroundChangesOfTheClock(t *testing.T) {
	t.Parallel()
	changes := map[string][]string{
		"America/New_York":    {"2025-03-09", "2025-11-02"},
		"Europe/Berlin":       {"2025-03-30", "2024-10-27"},
		"Australia/Lord_Howe": {"2025-04-06", "2025-10-05"},
		"Pacific/Apia":        {"2011-12-30"},
		"America/Santiago":    {"2025-09-07", "2025-04-06"},
		"Africa/Casablanca":   {"2025-02-23", "2025-04-06"},
		"Antarctica/Troll":    {"2025-03-30", "2025-10-26"}, // two hours
		"Asia/Kolkata":        {"2025-06-01"},
	}
	for name, days := range changes {
		for _, day := range days {
			t.Run(name+" "+day, func(t *testing.T) {
				t.Parallel()
				zone, err := time.LoadLocation(name)
				if err != nil {
					t.Fatal(err)
				}
				middle, err := time.Parse(time.DateOnly, day)
				if err != nil {
					t.Fatal(err)
				}
				from, to := middle.Add(-30*time.Hour), middle.Add(30*time.Hour)
				w := newWall(zone, from, to)
				for range 25 {
					compare(t, name, w, from, to)
				}
			})
		}
	}
}

func compare(t *testing.T, name string, w wall, from, to time.Time) {
	t.Helper()
	minutes, inMinutes := randomSet(0, 59)
	hours, inHours := randomSet(0, 4) // where the changes are
	interval := false
	switch rand.IntN(4) {
	case 0:
		minutes, inMinutes, interval = "*/7", map[int]bool{}, true
		for m := 0; m < 60; m += 7 {
			inMinutes[m] = true
		}
	case 1:
		hours, inHours, interval = "*", map[int]bool{}, true
		for h := range 24 {
			inHours[h] = true
		}
	}
	expression := fmt.Sprintf("%s %s * * *", minutes, hours)
	want := w.due(func(local time.Time) bool { return inMinutes[local.Minute()] && inHours[local.Hour()] }, interval, from, to)
	c, err := cadence.New(0, expression, name)
	if err != nil {
		t.Fatal(err)
	}
	var got []time.Time
	for at := c.After(from, from.Add(-time.Nanosecond)); at.Before(to); at = c.After(at, at) {
		got = append(got, at)
	}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("%s in %s:\ngot  %v\nwant %v", expression, name, got, want)
	}
}
