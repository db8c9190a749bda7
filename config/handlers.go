package config

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirq/weir/pkg/job"
)

// Bounds of worker.handlers.
const (
	maxHandlers = 1000
	maxWords    = 1000 // of a command, or of its environment
)

var bytesForm = regexp.MustCompile(`^([1-9][0-9]{0,8})(KiB|MiB|GiB)$`)

var bytesUnits = map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

// bytesFrom reads a size with its unit, from least to most (as text).
func bytesFrom(s, least, most string) (Bytes, string) {
	n, ok := parseBytes(s)
	if !ok {
		return 0, show(s) + " is not a size with its unit, such as 512MiB (KiB, MiB, GiB)"
	}
	low, _ := parseBytes(least)
	high, _ := parseBytes(most)
	if n < low || n > high {
		return 0, fmt.Sprintf("%s is out of range: %s to %s", show(s), least, most)
	}
	return n, ""
}

func parseBytes(s string) (Bytes, bool) {
	m := bytesForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/bytesUnits[m[2]] {
		return 0, false
	}
	return Bytes(n * bytesUnits[m[2]]), true
}

// String writes what a file would say.
func (b Bytes) String() string {
	for _, unit := range []string{"GiB", "MiB", "KiB"} {
		if n := bytesUnits[unit]; b > 0 && int64(b)%n == 0 {
			return fmt.Sprintf("%d%s", int64(b)/n, unit)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// handlerFields are the keys of one entry of worker.handlers.
var handlerFields = []string{"kind", "command", "webhook", "dir", "env", "token_file", "timeout", "retry_after", "slots", "max_rss"}

// handlers reads a list of {kind: …, command: […]} and {kind: …, webhook: …}.
func (f *file) handlers(n *yaml.Node, l *leaf) {
	handlers := []Handler{}
	if f.entries(n, l, "{kind: …, command: […]} or {kind: …, webhook: …}", func(item *yaml.Node, key string) {
		handlers = append(handlers, f.handler(item, key))
	}) {
		f.set(l, f.at(n.Line), handlers, checkHandlers(handlers))
	}
}

func (f *file) handler(n *yaml.Node, key string) (h Handler) {
	f.fields(n, key, handlerFields, []string{"kind"}, func(name string, v *yaml.Node) (problem string) {
		switch name {
		case "kind":
			if h.Kind, problem = plainText(v); problem == "" && job.ValidateKind(h.Kind) != nil {
				problem = show(h.Kind) + " is not a kind: 1 to 128 of A-Z a-z 0-9 _ . : / -"
			}
		case "command":
			h.Command, problem = texts(v)
		case "env":
			h.Env, problem = texts(v)
		case "webhook":
			h.Webhook, problem = checkedText(v)
		case "dir":
			h.Dir, problem = checkedText(v)
		case "token_file":
			h.TokenFile, problem = checkedText(v)
		case "timeout":
			problem = durationField(v, &h.Timeout, "1ms", "365d")
		case "retry_after":
			problem = durationField(v, &h.RetryAfter, "1ms", "365d")
		case "slots":
			h.Slots, problem = wholeNumber(v, 1, maxSlots)
		case "max_rss":
			var text string
			if text, problem = plainText(v); problem == "" {
				h.MaxRSS, problem = bytesFrom(text, "16MiB", "1024GiB")
			}
		}
		return problem
	})
	return h
}

func checkedText(n *yaml.Node) (string, string) {
	text, problem := plainText(n)
	if problem == "" {
		problem = checkText(text)
	}
	return text, problem
}

// texts reads a list of texts. An argument may be empty; its number, such as 5, must be in quotes: YAML would change 0x10.
func texts(n *yaml.Node) ([]string, string) {
	if n.Kind != yaml.SequenceNode || n.Anchor != "" {
		return nil, "is " + kindOf(n) + ", must be a list of texts: [one, two]"
	}
	if len(n.Content) == 0 || len(n.Content) > maxWords {
		return nil, fmt.Sprintf("has %d items, must have 1 to %d", len(n.Content), maxWords)
	}
	items := make([]string, len(n.Content))
	for i, item := range n.Content {
		text, problem := plainText(item)
		if problem == "" && text != "" {
			problem = checkText(text)
		}
		if problem != "" {
			return nil, fmt.Sprintf("item %d %s", i+1, problem)
		}
		items[i] = text
	}
	return items, ""
}

// checkHandlers checks the list as a whole, and what must not stand together.
func checkHandlers(handlers []Handler) string {
	if len(handlers) > maxHandlers {
		return fmt.Sprintf("has %d handlers, more than %d", len(handlers), maxHandlers)
	}
	seen := map[string]bool{}
	for _, h := range handlers {
		problem := h.check()
		if seen[h.Kind] {
			problem = "is given twice"
		}
		if problem != "" {
			return fmt.Sprintf("kind %s: %s", show(h.Kind), problem)
		}
		seen[h.Kind] = true
	}
	return ""
}

func (h *Handler) check() string {
	switch {
	case (len(h.Command) > 0) == (h.Webhook != ""):
		return "has neither command nor webhook, or both; it needs one of them"
	case len(h.Command) > 0 && h.Command[0] == "":
		return "command begins with an empty text; it begins with a program"
	case len(h.Command) > 0 && h.TokenFile != "":
		return "token_file is for a webhook"
	case h.Webhook != "" && (h.Dir != "" || len(h.Env) > 0 || h.MaxRSS > 0):
		return "dir, env and max_rss are for a command"
	case h.Webhook != "" && !strings.HasPrefix(h.Webhook, "http://") && !strings.HasPrefix(h.Webhook, "https://"):
		return "webhook is not an http:// or https:// URL"
	case slices.ContainsFunc(h.Env, func(line string) bool { return line == "" || line[0] == '=' || strings.HasPrefix(line, "WEIR_") }):
		return "env has an item that is neither NAME=value nor NAME; names that begin with WEIR_ are Weir's own"
	}
	return ""
}

// handlersFrom reads the list from a variable: the same YAML, in its flow form, which JSON is too.
func handlersFrom(s string) (any, string) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(s), &doc); err != nil || len(doc.Content) != 1 {
		return nil, "is not a list of handlers in YAML or JSON (not shown)"
	}
	f := &file{layer: newLayer(), name: "item"}
	l := &leaf{key: "handlers"}
	f.handlers(doc.Content[0], l)
	for _, err := range f.errs {
		if e, ok := err.(*Error); ok {
			return nil, e.Key + ": " + e.Problem
		}
	}
	return f.values[l.key], ""
}

// formatHandlers writes what handlersFrom reads.
func formatHandlers(handlers []Handler) string {
	if len(handlers) == 0 {
		return ""
	}
	list := make([]map[string]any, len(handlers))
	for i, h := range handlers {
		m := map[string]any{"kind": h.Kind}
		for name, v := range map[string]any{"command": h.Command, "webhook": h.Webhook, "dir": h.Dir, "env": h.Env, "token_file": h.TokenFile} {
			if text, ok := v.(string); ok && text != "" {
				m[name] = text
			} else if words, ok := v.([]string); ok && len(words) > 0 {
				m[name] = words
			}
		}
		if h.Timeout > 0 {
			m["timeout"] = formatDuration(h.Timeout)
		}
		if h.RetryAfter > 0 {
			m["retry_after"] = formatDuration(h.RetryAfter)
		}
		if h.Slots > 0 {
			m["slots"] = h.Slots
		}
		if h.MaxRSS > 0 {
			m["max_rss"] = h.MaxRSS.String()
		}
		list[i] = m
	}
	text, _ := json.Marshal(list) // strings, numbers and lists of them always encode
	return string(text)
}

var nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\*?$`)

// checkVariable says why a text is not the name of a variable that children may see.
func checkVariable(s string) string {
	if !nameForm.MatchString(s) {
		return show(s) + " is not the name of a variable (a star at its end stands for the rest)"
	}
	if strings.HasPrefix(s, "WEIR_") {
		return show(s) + " is Weir's own: children do not see its settings"
	}
	return ""
}

// durationField reads a duration from least to most.
func durationField(n *yaml.Node, to *time.Duration, least, most string) string {
	l := &leaf{typ: typeDuration, min: least, max: most}
	if problem := scalar(n, l); problem != "" {
		return problem
	}
	v, problem := l.durationFrom(n.Value)
	if problem == "" {
		*to, _ = v.(time.Duration)
	}
	return problem
}
