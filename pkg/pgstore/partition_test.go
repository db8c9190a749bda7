package pgstore_test

import (
	"testing"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
	"pgregory.net/rapid"
)

func TestAPartitionIsNamedForItsBeginningInUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 14, 5, 59, 999, time.UTC)
	cases := []struct {
		name  string
		at    time.Time
		width pgstore.Width
		want  string
		from  time.Time
	}{
		{"a day", at, pgstore.Day, "jobs_20261130", time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)},
		{"an hour", at, pgstore.Hour, "jobs_2026113014", time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)},
		{"a minute", at, pgstore.Minute, "jobs_202611301405", time.Date(2026, 11, 30, 14, 5, 0, 0, time.UTC)},
		{
			"a zone that is a day ahead counts by UTC", at.In(time.FixedZone("", 13*3600+1800)), pgstore.Day,
			"jobs_20261130", time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
		},
		{
			"the boundary belongs to what begins there", time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), pgstore.Day,
			"jobs_20261201", time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		},
		{
			"the leap day", time.Date(2028, 2, 29, 23, 59, 0, 0, time.UTC), pgstore.Day,
			"jobs_20280229", time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := pgstore.PartitionName("jobs", c.width, c.at); got != c.want {
				t.Errorf("name: got %s, want %s", got, c.want)
			}
			if got := pgstore.Floor(c.width, c.at); got != c.from {
				t.Errorf("floor: got %s, want %s", got, c.from)
			}
		})
	}
}

func TestAPartitionsNameGivesBackParentAndBounds(t *testing.T) {
	t.Parallel()
	first := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(first, last).Draw(t, "at"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		w := pgstore.Width(rapid.IntRange(int(pgstore.Day), int(pgstore.Minute)).Draw(t, "width"))
		parent := rapid.StringMatching(`[a-z][a-z0-9_]{0,20}`).Draw(t, "parent")
		name := pgstore.PartitionName(parent, w, at)
		got, from, to, ok := pgstore.ParsePartition(name)
		if !ok || got != parent || from != pgstore.Floor(w, at) || to.Sub(from) != w.Duration() {
			t.Fatalf("%s: got %q, %s to %s, %v", name, got, from, to, ok)
		}
		if at.Before(from) || !at.Before(to) {
			t.Fatalf("%s holds %s to %s, not %s", name, from, to, at)
		}
	})
}

func TestOtherNamesAreNoPartitions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "jobs", "jobs_", "_20261130", "20261130", "jobs_default", "jobs_kept", "jobs_2026113", "jobs_20261330",
		"jobs_20261131", "jobs_20270229", "jobs_2026113024", "jobs_202611301460", "jobs_20261130140512", "jobs_+0261130",
		"jobs_2026113O", "jobs_20261130 ", "jobs_٢٠٢٦",
	} {
		if parent, from, to, ok := pgstore.ParsePartition(name); ok {
			t.Errorf("%q: got %q, %s to %s", name, parent, from, to)
		}
	}
}

func TestAWidthsWordIsReadBack(t *testing.T) {
	t.Parallel()
	for w := pgstore.Day; w.Valid(); w++ {
		got, err := pgstore.ParseWidth(w.String())
		if got != w || err != nil {
			t.Errorf("%s: got %s, %v", w, got, err)
		}
		// An id may be 10 min ahead of the database clock; its partition must be there before it is.
		if room := time.Duration(w.Ahead()) * w.Duration(); room <= 10*time.Minute {
			t.Errorf("%s: only %s ahead", w, room)
		}
	}
	for _, word := range []string{"", "Day", "week", "day "} {
		if _, err := pgstore.ParseWidth(word); err == nil {
			t.Errorf("%q is read", word)
		}
	}
}
