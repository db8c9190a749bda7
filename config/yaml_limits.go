package config

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirq/weir/pkg/job"
)

// limits reads a list of {key: …, limit: …} and {rate: …, limit: …, per: …}. A list, so that names stay data.
func (f *file) limits(n *yaml.Node, l *leaf) {
	limits := []Limit{}
	if f.entries(n, l, "{key: …, limit: …} or {rate: …, limit: …, per: …}", func(item *yaml.Node, key string) {
		limits = append(limits, f.limit(item, key))
	}) {
		f.set(l, f.at(n.Line), limits, checkLimits(limits))
	}
}

// entries calls read for each mapping of a list and reports whether all was without fault.
func (f *file) entries(n *yaml.Node, l *leaf, form string, read func(item *yaml.Node, key string)) bool {
	before := len(f.errs)
	if n.Kind != yaml.SequenceNode {
		f.fault(f.at(n.Line), l.key, "is "+kindOf(n)+", must be a list of "+form)
		return false
	}
	for i, item := range n.Content {
		key := fmt.Sprintf("%s[%d]", l.key, i)
		switch {
		case !f.plain(item, key):
		case item.Kind != yaml.MappingNode:
			f.fault(f.at(item.Line), key, "is "+kindOf(item)+", must be "+form)
		default:
			read(item, key)
		}
	}
	return len(f.errs) == before
}

// fields reads the keys of one entry: each is given to read, which says what is wrong with it; those of must that are not there
// are faults, and so is what is not known.
func (f *file) fields(n *yaml.Node, key string, known, must []string, read func(name string, v *yaml.Node) string) {
	missing := slices.Clone(must)
	f.pairs(n, key, func(name string, _, v *yaml.Node) {
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
		problem := "unknown key" + didYouMean(Nearest(name, known))
		if slices.Contains(known, name) {
			problem = read(name, v)
		}
		if problem != "" {
			f.fault(f.at(v.Line), join(key, name), problem)
		}
	})
	for _, name := range missing {
		f.fault(f.at(n.Line), join(key, name), "is missing")
	}
}

// limit reads one entry of limits.
func (f *file) limit(n *yaml.Node, key string) (e Limit) {
	names := 0
	for i := 0; i+1 < len(n.Content); i += 2 {
		e.Rate = e.Rate || n.Content[i].Value == "rate" // first: it decides what the others may be
	}
	must := []string{"limit"}
	if e.Rate {
		must = append(must, "per")
	}
	f.fields(n, key, []string{"key", "rate", "limit", "per"}, must, func(name string, v *yaml.Node) (problem string) {
		switch name {
		case "key", "rate":
			var text string
			if names++; names > 1 {
				return "stands beside another name; an entry is about a key or about a rate"
			}
			if text, problem = plainText(v); problem == "" {
				problem = e.name(text)
			}
		case "limit":
			e.Limit, problem = wholeNumber(v, e.least(), job.MaxKeyLimit)
		case "per":
			if !e.Rate {
				return "is a rate's; write rate: instead of key:"
			}
			e.Per, problem = window(v)
		}
		return problem
	})
	if names == 0 {
		f.fault(f.at(n.Line), key, "has neither key nor rate")
	}
	return e
}

func window(n *yaml.Node) (time.Duration, string) {
	if n.Anchor != "" || n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return 0, "is " + kindOf(n) + ", must be a duration with its unit, such as 1s"
	}
	return perFrom(n.Value)
}

// queueLimits reads a list of {name: …, limit: …, rate: {limit: …, per: …}}.
func (f *file) queueLimits(n *yaml.Node, l *leaf) {
	queues := []QueueLimit{}
	if f.entries(n, l, "{name: …, limit: …, rate: {limit: …, per: …}}", func(item *yaml.Node, key string) {
		queues = append(queues, f.queueLimit(item, key))
	}) {
		f.set(l, f.at(n.Line), queues, checkQueueLimits(queues))
	}
}

func (f *file) queueLimit(n *yaml.Node, key string) (q QueueLimit) {
	said := false
	f.fields(n, key, []string{"name", "limit", "rate"}, []string{"name"}, func(name string, v *yaml.Node) (problem string) {
		switch name {
		case "name":
			if q.Name, problem = plainText(v); problem == "" {
				problem = checkName(q.Name)
			}
		case "limit":
			said = true
			q.Limit, problem = wholeNumber(v, 1, job.MaxKeyLimit)
		case "rate":
			said = true
			if !f.plain(v, join(key, "rate")) {
				return ""
			}
			if v.Kind != yaml.MappingNode {
				return "is " + kindOf(v) + ", must be {limit: …, per: …}"
			}
			f.fields(v, join(key, "rate"), []string{"limit", "per"}, []string{"limit", "per"}, func(name string, v *yaml.Node) (problem string) {
				if name == "per" {
					q.Per, problem = window(v)
					return problem
				}
				q.Rate, problem = wholeNumber(v, 1, job.MaxKeyLimit)
				return problem
			})
		}
		return problem
	})
	if !said {
		f.fault(f.at(n.Line), key, "has neither limit nor rate")
	}
	return q
}
