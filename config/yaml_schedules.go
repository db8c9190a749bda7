package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirq/weir/pkg/job"
)

// scheduleFields are the keys of one entry of sweeper.schedules.
var scheduleFields = []string{
	"name", "cron", "zone", "every", "first_in", "kind", "payload", "queue", "priority", "max_attempts", "timeout", "expires_in", "tags",
	"misfire", "misfire_cap", "enabled",
}

// schedules reads a list of {name: …, cron: …, kind: …}.
func (f *file) schedules(n *yaml.Node, l *leaf) {
	list := []Schedule{}
	lines := map[string]int{}
	if f.entries(n, l, "{name: …, cron: …, kind: …}", func(item *yaml.Node, key string) {
		s, ok := f.schedule(item, key)
		if first := lines[s.Name]; ok && first > 0 {
			f.fault(f.at(item.Line), key, fmt.Sprintf("schedule %s is given twice, first at %s", show(s.Name), f.at(first)))
		}
		lines[s.Name] = item.Line
		list = append(list, s)
	}) {
		problem := ""
		if len(list) > maxSchedules {
			problem = fmt.Sprintf("has %d entries, more than %d", len(list), maxSchedules)
		}
		f.set(l, f.at(n.Line), list, problem)
	}
}

// schedule reads one entry and reports whether it was without fault.
func (f *file) schedule(n *yaml.Node, key string) (s Schedule, ok bool) {
	before := len(f.errs)
	s.Payload = "{}"
	lines := map[string]int{}
	f.fields(n, key, scheduleFields, []string{"name", "kind"}, func(name string, v *yaml.Node) string {
		lines[name] = v.Line
		if name == "payload" {
			text, problem := jsonOf(v)
			s.Payload = string(text)
			return problem
		}
		if !f.plain(v, join(key, name)) {
			return ""
		}
		return s.read(name, v)
	})
	if len(f.errs) > before {
		return s, false
	}
	if field, problem := s.check(); problem != "" {
		line := lines[field]
		if line == 0 {
			line = n.Line
		}
		f.fault(f.at(line), join(key, field), problem)
	}
	return s, len(f.errs) == before
}

// read takes one field in and returns what is wrong with it.
func (s *Schedule) read(name string, v *yaml.Node) (problem string) {
	switch name {
	case "name":
		s.Name, problem = nameOf(v)
	case "queue":
		s.Queue, problem = nameOf(v)
	case "kind":
		s.Kind, problem = plainText(v)
	case "cron":
		s.Cron, problem = plainText(v)
	case "zone":
		s.Zone, problem = plainText(v)
	case "every":
		s.Every, problem = spanOf(v, time.Second, 3660*day)
	case "first_in":
		s.FirstIn, problem = spanOf(v, time.Millisecond, 3660*day)
	case "expires_in":
		s.ExpiresIn, problem = spanOf(v, time.Millisecond, 3660*day)
	case "timeout":
		if v.Value == "none" {
			s.Timeout = job.NoTimeout
			return ""
		}
		s.Timeout, problem = spanOf(v, time.Millisecond, 3660*day)
	case "priority":
		s.Priority, problem = wholeNumber(v, 1, job.MaxPriority)
	case "max_attempts":
		s.MaxAttempts, problem = wholeNumber(v, 1, job.MaxMaxAttempts)
	case "misfire_cap":
		s.MisfireCap, problem = wholeNumber(v, 1, 1000)
	case "misfire":
		words := &leaf{oneOf: []string{"once", "skip", "all"}}
		if s.Misfire, problem = plainText(v); problem == "" {
			problem = words.checkWord(s.Misfire)
		}
	case "tags":
		s.Tags, problem = tagsOf(v)
	case "enabled":
		if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!bool" {
			return "is " + kindOf(v) + ", must be true or false"
		}
		s.Disabled = strings.EqualFold(v.Value, "false")
	}
	return problem
}

func nameOf(n *yaml.Node) (string, string) {
	text, problem := plainText(n)
	if problem == "" {
		problem = checkName(text)
	}
	return text, problem
}

func spanOf(n *yaml.Node, least, most time.Duration) (time.Duration, string) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return 0, "is " + kindOf(n) + ", must be a duration with its unit, such as 30s"
	}
	d, err := parseDuration(n.Value)
	switch {
	case err != nil:
		return 0, show(n.Value) + " " + err.Error() + "; a right one is 30s"
	case d < least || d > most || d%time.Millisecond != 0:
		return 0, fmt.Sprintf("%s is out of range: whole milliseconds from %s to %s", show(n.Value), formatDuration(least), formatDuration(most))
	}
	return d, ""
}

func tagsOf(n *yaml.Node) (tags []string, problem string) {
	if n.Kind != yaml.SequenceNode {
		return nil, "is " + kindOf(n) + ", must be a list of words: [one, two]"
	}
	for _, item := range n.Content {
		tag, problem := nameOf(item)
		if problem != "" {
			return nil, "has an item that " + problem
		}
		tags = append(tags, tag)
	}
	if len(tags) > job.MaxTags {
		return nil, fmt.Sprintf("has %d items, more than %d", len(tags), job.MaxTags)
	}
	return tags, ""
}

// jsonOf writes a node as JSON: keys in their order, numbers as they stand in the file.
func jsonOf(n *yaml.Node) (text []byte, problem string) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return nil, "uses an anchor (&) or alias (*); write the value out"
	}
	var b bytes.Buffer
	switch n.Kind {
	case yaml.ScalarNode:
		return scalarJSON(n)
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if text, problem = jsonOf(item); problem != "" {
				return nil, problem
			}
			b.WriteByte("[,"[min(i, 1)])
			b.Write(text)
		}
		if len(n.Content) == 0 {
			b.WriteByte('[')
		}
		b.WriteByte(']')
	case yaml.MappingNode:
		b.WriteByte('{')
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" || seen[k.Value] {
				return nil, fmt.Sprintf("has a key in line %d that is not text, or is there twice", k.Line)
			}
			seen[k.Value] = true
			if text, problem = jsonOf(n.Content[i+1]); problem != "" {
				return nil, problem
			}
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(encoded(k.Value))
			b.WriteByte(':')
			b.Write(text)
		}
		b.WriteByte('}')
	}
	return b.Bytes(), ""
}

func scalarJSON(n *yaml.Node) ([]byte, string) {
	switch n.ShortTag() {
	case "!!str":
		return encoded(n.Value), ""
	case "!!null":
		return []byte("null"), ""
	case "!!bool":
		return []byte(strings.ToLower(n.Value)), ""
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return []byte(n.Value), ""
		}
		return nil, fmt.Sprintf("has a number in line %d that JSON does not know; write it in decimal, or put it in quotes", n.Line)
	}
	return nil, fmt.Sprintf("has %s in line %d; put it in quotes", kindOf(n), n.Line)
}

// encoded writes a text as JSON, with < > & as they are.
func encoded(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text always encodes
	return bytes.TrimSpace(b.Bytes())
}
