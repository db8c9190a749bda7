package config

import (
	"fmt"
	"strconv"
	"strings"
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
	s = strings.TrimLeft(s, " ")
	name := ""
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return q, "", "the quoted name has no end"
		}
		name, _ = strconv.Unquote(quoted)
		s = s[len(quoted):]
	} else if i := strings.IndexAny(s, "=,"); i >= 0 {
		name, s = strings.TrimSpace(s[:i]), s[i:]
	} else {
		name, s = strings.TrimSpace(s), ""
	}
	numbers, rest := s, ""
	if i := strings.IndexByte(s, ','); i >= 0 {
		numbers, rest = s[:i], s[i:]
	}
	if problem := checkName(name); problem != "" {
		return q, "", "the name " + problem
	}
	numbers, ok := strings.CutPrefix(strings.TrimSpace(numbers), "=")
	if !ok {
		return q, "", fmt.Sprintf("%s has no slots; write name=slots or name=slots*weight", show(name))
	}
	slots, weight, weighted := strings.Cut(numbers, "*")
	q = Queue{Name: name, Weight: 1}
	if q.Slots, problem = intWithin(slots, maxSlots); problem != "" {
		return q, "", fmt.Sprintf("slots of %s: %s", show(name), problem)
	}
	if weighted {
		if q.Weight, problem = intWithin(weight, maxWeight); problem != "" {
			return q, "", fmt.Sprintf("weight of %s: %s", show(name), problem)
		}
	}
	return q, rest, ""
}

// intWithin reads a number from 1 to most.
func intWithin(s string, most int) (int, string) {
	n, problem := parseInt(s)
	if problem == "" && (n < 1 || n > most) {
		problem = fmt.Sprintf("%d is out of range: 1 to %d", n, most)
	}
	return n, problem
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
		name := q.Name
		if strings.ContainsAny(name, `,=*"`) || strings.TrimSpace(name) != name {
			name = strconv.Quote(name)
		}
		items[i] = fmt.Sprintf("%s=%d", name, q.Slots)
		if q.Weight != 1 {
			items[i] += fmt.Sprintf("*%d", q.Weight)
		}
	}
	return strings.Join(items, ",")
}

// slotsOf returns how many jobs the queues can run together.
func slotsOf(queues []Queue) int {
	total := 0
	for _, q := range queues {
		total += q.Slots
	}
	return total
}
