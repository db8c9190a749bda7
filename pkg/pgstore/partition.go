package pgstore

import (
	"fmt"
	"strings"
	"time"
)

// Width is how long a stretch of time a partition holds. All partitions begin and end on UTC boundaries.
type Width int

// The widths. The zero value is Day.
const (
	Day Width = iota
	Hour
	Minute
)

var widthWords = [...]string{Day: "day", Hour: "hour", Minute: "minute"}

// The stamp of a partition's name, in its own length for each width: ParsePartition tells them apart by it.
var widthStamps = [...]string{Day: "20060102", Hour: "2006010215", Minute: "200601021504"}

// ParseWidth reads "day", "hour" or "minute".
func ParseWidth(word string) (Width, error) {
	for w, known := range widthWords {
		if word == known {
			return Width(w), nil
		}
	}
	return Day, fmt.Errorf("partition width %q: want day, hour or minute", word)
}

// Valid reports whether w is one of the widths.
func (w Width) Valid() bool { return w >= Day && w <= Minute }

// String returns the word that ParseWidth reads, which is also Postgres' for the unit.
func (w Width) String() string {
	if !w.Valid() {
		return fmt.Sprintf("Width(%d)", int(w))
	}
	return widthWords[w]
}

// Duration returns the length of a partition: days are those of UTC and have 24 hours. It panics unless w is Valid.
func (w Width) Duration() time.Duration {
	return [...]time.Duration{Day: 24 * time.Hour, Hour: time.Hour, Minute: time.Minute}[w]
}

// Ahead returns how many partitions beyond the present one there should be by default: two days, or 6 hours, or 15
// minutes; always more than the 10 min that an id may lie in the future. It panics unless w is Valid.
func (w Width) Ahead() int {
	return [...]int{Day: 2, Hour: 6, Minute: 15}[w]
}

// Floor returns the beginning, in UTC, of the partition that holds t. The partition ends w.Duration() later.
func Floor(w Width, t time.Time) time.Time {
	return t.UTC().Truncate(w.Duration()) // counts from midnight UTC, where every width divides the day
}

// PartitionName returns the name of parent's partition that holds t: jobs_20261130, jobs_2026113014 or
// jobs_202611301405, in UTC.
func PartitionName(parent string, w Width, t time.Time) string {
	return parent + "_" + Floor(w, t).Format(widthStamps[w])
}

// ParsePartition takes a name of PartitionName apart: its parent, and the time it holds, from inclusive, to exclusive.
// ok is false for every other name, such as jobs_default.
func ParsePartition(name string) (parent string, from, to time.Time, ok bool) {
	cut := strings.LastIndexByte(name, '_')
	if cut < 1 {
		return "", from, to, false
	}
	parent, stamp := name[:cut], name[cut+1:]
	for w, layout := range widthStamps {
		if len(stamp) != len(layout) {
			continue
		}
		from, err := time.Parse(layout, stamp)
		// The way back must give the same name: what time.Parse forgives is none of ours to drop.
		if err != nil || PartitionName(parent, Width(w), from) != name {
			break
		}
		return parent, from, from.Add(Width(w).Duration()), true
	}
	return "", time.Time{}, time.Time{}, false
}
