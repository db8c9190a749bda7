package cadence

import (
	"math/bits"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// parser reads six fields into sets. What the sets mean is computed here: see the decision about schedules.
var parser = cron.MustNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)

var nicknames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// fields are the sets of an expression: bit n is the number n.
type fields struct {
	second, minute, hour, dom, month, dow uint64

	anyDom, anyDow bool // the field is *
	interval       bool // real time counts, not the clock on the wall
}

// parse reads an expression. The error is an *Error.
func parse(text string) (fields, error) {
	refuse := func(limit string) (fields, error) { return fields{}, &Error{"Cron", quote(text), limit} }
	if len(text) > maxCronBytes {
		return refuse("at most 256 bytes")
	}
	words := strings.Fields(text)
	if len(words) > 0 && strings.HasPrefix(words[0], "@") {
		plain, ok := nicknames[strings.ToLower(words[0])]
		switch {
		case strings.EqualFold(words[0], "@every"):
			return refuse("the interval in Every")
		case !ok || len(words) > 1:
			return refuse("@yearly, @monthly, @weekly, @daily or @hourly")
		}
		words = strings.Fields(plain)
	}
	if len(words) > 0 && strings.Contains(words[0], "TZ=") {
		return refuse("the time zone in Zone") // it has made parsers panic
	}
	if len(words) == 5 {
		words = append([]string{"0"}, words...)
	}
	if len(words) != 6 {
		return refuse("five fields, or six with the second first")
	}
	for _, w := range words {
		if strings.HasPrefix(w, ",") || strings.HasSuffix(w, ",") || strings.Contains(w, ",,") {
			return refuse("no empty item in a list")
		}
	}
	parsed, err := parser.Parse(strings.Join(words, " "))
	if err != nil {
		return refuse("an expression: " + err.Error())
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok || spec.Year != nil || spec.DomConstraints != nil || spec.DowConstraints != nil {
		return refuse("an expression without extensions")
	}
	return fieldsOf(words, spec), nil
}

func fieldsOf(words []string, spec *cron.SpecSchedule) fields {
	const all = 1<<60 - 1 // without the parser's mark for *
	f := fields{
		second: spec.Second & all, minute: spec.Minute & all, hour: spec.Hour & all,
		dom: spec.Dom & all, month: spec.Month & all, dow: cron.NormalizeDOW(spec.Dow & all),
		anyDom: isAny(words[3]), anyDow: isAny(words[5]),
	}
	for _, w := range words[:3] {
		f.interval = f.interval || strings.HasPrefix(w, "*")
	}
	return f
}

func isAny(word string) bool { return word == "*" || word == "?" }

// possible reports whether some date of some year fits.
func (f *fields) possible() bool {
	if f.second == 0 || f.minute == 0 || f.hour == 0 || f.month == 0 {
		return false
	}
	if f.anyDom || !f.anyDow {
		return f.dow != 0 // a day of the week comes in every month
	}
	for month, days := range [...]int{1: 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31} {
		if has(f.month, month) && f.dom&(1<<(days+1)-2) != 0 {
			return true
		}
	}
	return false
}

// day reports whether the expression names a date.
func (f *fields) day(t time.Time) bool {
	dom, dow := has(f.dom, t.Day()), has(f.dow, int(t.Weekday()))
	switch {
	case f.anyDom:
		return dow
	case f.anyDow:
		return dom
	}
	return dom || dow
}

// civil returns the first local time not before t that the expression names; local times are written as if they were UTC. It
// is zero if none comes within forty years: 29 February comes in eight at the latest, and what is impossible was refused.
func (f *fields) civil(t time.Time) time.Time {
	for limit := t.Year() + 40; t.Year() <= limit; {
		if !has(f.month, int(t.Month())) {
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if f.day(t) {
			if at, ok := f.clock(t); ok {
				return at
			}
		}
		t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// clock returns the first time of day not before t, on the same date.
func (f *fields) clock(t time.Time) (time.Time, bool) {
	h, m, s := t.Clock()
	if has(f.hour, h) {
		if has(f.minute, m) {
			if next, ok := from(f.second, s); ok {
				return onDay(t, h, m, next), true
			}
		}
		if next, ok := from(f.minute, m+1); ok {
			return onDay(t, h, next, bits.TrailingZeros64(f.second)), true
		}
	}
	if next, ok := from(f.hour, h+1); ok {
		return onDay(t, next, bits.TrailingZeros64(f.minute), bits.TrailingZeros64(f.second)), true
	}
	return t, false
}

func onDay(t time.Time, h, m, s int) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), h, m, s, 0, time.UTC)
}

func has(set uint64, n int) bool { return set>>n&1 != 0 }

// from returns the least number of a set that is n or more.
func from(set uint64, n int) (int, bool) {
	rest := set >> n << n
	return bits.TrailingZeros64(rest), rest != 0
}
