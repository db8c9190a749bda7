package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirq/weir/pkg/job"
)

const maxLimits = 10_000 // entries

// limitsFrom reads the compact form name=limit for locks and name=limit/per for rates, items separated by commas; a * at the end of
// a name makes it a prefix.
func limitsFrom(s string) (any, string) {
	limits := []Limit{}
	problem := eachItem(s, "name=limit or name=limit/per", func(name, value string) string {
		number, per, isRate := strings.Cut(value, "/")
		e := Limit{Rate: isRate}
		problem := e.name(name)
		if problem == "" {
			e.Limit, problem = intWithin(number, e.least(), job.MaxKeyLimit)
		}
		if problem == "" && isRate {
			e.Per, problem = perFrom(per)
		}
		limits = append(limits, e)
		return prefixed(show(name)+": ", problem)
	})
	if problem != "" {
		return nil, problem
	}
	return limits, checkLimits(limits)
}

// eachItem calls f with the name of each item of a compact list and what stands behind its =.
func eachItem(s, form string, f func(name, value string) string) string {
	all := s // a connection string in the wrong place is shown in no part either
	for n := 1; ; n++ {
		name, value, rest, problem := cutItem(s)
		value, ok := strings.CutPrefix(value, "=")
		switch {
		case problem == "" && !ok:
			problem = show(name) + " has no limit; write " + form
		case problem == "":
			problem = f(name, value)
		}
		if problem != "" && likeSecret.MatchString(all) {
			problem = "it is not " + form + " (not shown)"
		}
		if problem != "" {
			return fmt.Sprintf("item %d: %s", n, problem)
		}
		if rest == "" {
			return ""
		}
		s = rest[1:] // the comma
	}
}

// name takes a name as it is written: with a * at the end it is a prefix.
func (e *Limit) name(text string) string {
	e.Name, e.Prefix = strings.CutSuffix(text, "*")
	if e.Prefix && e.Name == "" {
		return "" // all keys
	}
	if err := job.ValidateKey(e.Name); err != nil {
		return show(text) + " is no key's name: 1 to 255 bytes of UTF-8 without NUL that do not begin with weir."
	}
	return ""
}

// text is the way back.
func (e *Limit) text() string {
	if e.Prefix {
		return e.Name + "*"
	}
	return e.Name
}

// least is the least limit: with 0 a lock lets nothing start; a rate of nothing would be a job that waits for ever.
func (e *Limit) least() int {
	if e.Rate {
		return 1
	}
	return 0
}

// perFrom reads a rate's window; "s" is short for 1s.
func perFrom(s string) (time.Duration, string) {
	text := s
	if s == "s" || s == "m" || s == "h" {
		text = "1" + s
	}
	d, err := parseDuration(text)
	if err != nil {
		return 0, show(s) + " " + err.Error() + "; write a rate's window with its unit: 1s, 250ms, 5m"
	}
	if d < time.Millisecond || d > job.MaxRatePer || d%time.Millisecond != 0 {
		return 0, show(s) + " is out of range: whole milliseconds from 1ms to 24h"
	}
	return d, ""
}

// checkLimits checks the list as a whole; its items were checked one by one.
func checkLimits(limits []Limit) string {
	if len(limits) > maxLimits {
		return fmt.Sprintf("has %d entries, more than %d", len(limits), maxLimits)
	}
	type identity struct {
		name         string
		prefix, rate bool
	}
	seen := map[identity]bool{}
	for _, e := range limits {
		id := identity{e.Name, e.Prefix, e.Rate}
		if seen[id] {
			return fmt.Sprintf("%s is given twice", show(e.text()))
		}
		seen[id] = true
	}
	return ""
}

// formatLimits writes what limitsFrom reads.
func formatLimits(limits []Limit) string {
	items := make([]string, len(limits))
	for i, e := range limits {
		items[i] = fmt.Sprintf("%s=%d", compactName(e.text()), e.Limit)
		if e.Rate {
			items[i] += "/" + formatDuration(e.Per)
		}
	}
	return strings.Join(items, ",")
}

// queueLimitsFrom reads the compact form name=limit, name=limit/per or name=limit+limit/per, items separated by commas.
func queueLimitsFrom(s string) (any, string) {
	queues := []QueueLimit{}
	problem := eachItem(s, "name=limit, name=number/per or name=limit+number/per", func(name, value string) string {
		q := QueueLimit{Name: name}
		problem := checkName(name)
		number, rate, both := strings.Cut(value, "+")
		if !both && strings.Contains(value, "/") {
			number, rate = "", value
		}
		if problem == "" && (number != "" || both || rate == "") {
			q.Limit, problem = intWithin(number, 1, job.MaxKeyLimit)
		}
		if problem == "" && (rate != "" || both) {
			n, per, _ := strings.Cut(rate, "/")
			if q.Rate, problem = intWithin(n, 1, job.MaxKeyLimit); problem == "" {
				q.Per, problem = perFrom(per)
			}
		}
		queues = append(queues, q)
		return prefixed(show(name)+": ", problem)
	})
	if problem != "" {
		return nil, problem
	}
	return queues, checkQueueLimits(queues)
}

func checkQueueLimits(queues []QueueLimit) string {
	if len(queues) > maxQueues {
		return fmt.Sprintf("has %d queues, more than %d", len(queues), maxQueues)
	}
	seen := map[string]bool{}
	for _, q := range queues {
		if seen[q.Name] {
			return fmt.Sprintf("queue %s is given twice", show(q.Name))
		}
		seen[q.Name] = true
	}
	return ""
}

// formatQueueLimits writes what queueLimitsFrom reads.
func formatQueueLimits(queues []QueueLimit) string {
	items := make([]string, len(queues))
	for i, q := range queues {
		var parts []string
		if q.Limit > 0 {
			parts = append(parts, fmt.Sprint(q.Limit))
		}
		if q.Rate > 0 {
			parts = append(parts, fmt.Sprintf("%d/%s", q.Rate, formatDuration(q.Per)))
		}
		items[i] = compactName(q.Name) + "=" + strings.Join(parts, "+")
	}
	return strings.Join(items, ",")
}
