package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

const (
	maxQueues = 1000
	maxSlots  = 100_000 // of one queue, and of all together
	maxWeight = 100
)

// queuesFrom reads the compact form name=slots[*weight], items separated by commas.
func queuesFrom(s string) (any, string) {
	var queues []Queue
	all := s // a connection string in the wrong place is shown in no part either
	for {
		q, rest, problem := cutQueue(s)
		if problem != "" && likeSecret.MatchString(all) {
			problem = "it is not name=slots or name=slots*weight (not shown)"
		}
		if problem != "" {
			return nil, fmt.Sprintf("item %d: %s", len(queues)+1, problem)
		}
		queues = append(queues, q)
		if rest == "" {
			break
		}
		s = rest[1:] // the comma
	}
	return queues, checkQueues(queues)
}

// cutQueue reads the first item of s and returns what follows: nothing, or a comma and more.
func cutQueue(s string) (q Queue, rest, problem string) {
	name, numbers, rest, problem := cutItem(s)
	if problem == "" {
		problem = prefixed("the name ", checkName(name))
	}
	if problem != "" {
		return q, "", problem
	}
	numbers, modes, hasModes := strings.Cut(numbers, "@")
	numbers, ok := strings.CutPrefix(numbers, "=")
	if !ok {
		return q, "", fmt.Sprintf("%s has no slots; write name=slots or name=slots*weight", show(name))
	}
	slots, weight, weighted := strings.Cut(numbers, "*")
	q = Queue{Name: name, Weight: 1}
	if hasModes {
		q.Modes = strings.Split(modes, "+")
		if problem = checkModes(q.Modes); problem != "" {
			return q, "", fmt.Sprintf("modes of %s: %s", show(name), problem)
		}
	}
	if q.Slots, problem = intWithin(slots, 1, maxSlots); problem != "" {
		return q, "", fmt.Sprintf("slots of %s: %s", show(name), problem)
	}
	if weighted {
		if q.Weight, problem = intWithin(weight, 1, maxWeight); problem != "" {
			return q, "", fmt.Sprintf("weight of %s: %s", show(name), problem)
		}
	}
	return q, rest, ""
}

// cutItem cuts the first item of a compact list into its name, which may be quoted, what follows up to a comma, "=" included,
// and the rest, its comma included.
func cutItem(s string) (name, value, rest, problem string) {
	s = strings.TrimLeft(s, " ")
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", "", "the quoted name has no end"
		}
		name, _ = strconv.Unquote(quoted)
		s = s[len(quoted):]
	} else if i := strings.IndexAny(s, "=,"); i >= 0 {
		name, s = strings.TrimSpace(s[:i]), s[i:]
	} else {
		name, s = strings.TrimSpace(s), ""
	}
	value = s
	if i := strings.IndexByte(s, ','); i >= 0 {
		value, rest = s[:i], s[i:]
	}
	return name, strings.TrimSpace(value), rest, ""
}

// prefixed puts words before a problem if there is one.
func prefixed(words, problem string) string {
	if problem == "" {
		return ""
	}
	return words + problem
}

// intWithin reads a number from least to most.
func intWithin(s string, least, most int) (int, string) {
	n, problem := parseInt(s)
	if problem == "" && (n < least || n > most) {
		problem = fmt.Sprintf("%d is out of range: %d to %d", n, least, most)
	}
	return n, problem
}

// checkModes checks the modes of a queue.
func checkModes(modes []string) string {
	l := &leaf{typ: typeWords, oneOf: []string{"inline", "forked", "spawned"}}
	_, problem := l.wordsFrom(modes)
	return problem
}

// checkQueues checks the list as a whole; its items were checked one by one.
func checkQueues(queues []Queue) string {
	if len(queues) == 0 {
		return "is empty; name at least one queue, or leave the key out"
	}
	if len(queues) > maxQueues {
		return fmt.Sprintf("has %d queues, more than %d", len(queues), maxQueues)
	}
	total := 0
	seen := map[string]bool{}
	for _, q := range queues {
		if seen[q.Name] {
			return fmt.Sprintf("queue %s is given twice", show(q.Name))
		}
		seen[q.Name] = true
		total += q.Slots
	}
	if total > maxSlots {
		return fmt.Sprintf("has %d slots in all, more than %d", total, maxSlots)
	}
	return ""
}

// formatQueues writes what queuesFrom reads.
func formatQueues(queues []Queue) string {
	items := make([]string, len(queues))
	for i, q := range queues {
		items[i] = fmt.Sprintf("%s=%d", compactName(q.Name), q.Slots)
		if q.Weight != 1 {
			items[i] += fmt.Sprintf("*%d", q.Weight)
		}
		if len(q.Modes) > 0 {
			items[i] += "@" + strings.Join(q.Modes, "+")
		}
	}
	return strings.Join(items, ",")
}

// compactName writes a name as cutItem reads it.
func compactName(name string) string {
	if name == "" || strings.ContainsAny(name, `,="`) || strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

// slotsOf returns how many jobs the queues can run together.
func slotsOf(queues []Queue) int {
	total := 0
	for _, q := range queues {
		total += q.Slots
	}
	return total
}
