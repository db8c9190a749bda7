package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// queueFields are the keys of one entry of worker.queues.
var queueFields = []string{"name", "slots", "weight", "modes"}

// queues reads a list of {name, slots, weight}. A list, so that names stay data: their case and dots are kept.
func (f *file) queues(n *yaml.Node, l *leaf) {
	if n.Kind != yaml.SequenceNode {
		f.fault(f.at(n.Line), l.key, "is "+kindOf(n)+", must be a list of {name: …, slots: …}")
		return
	}
	before := len(f.errs)
	queues := []Queue{}
	lines := map[string]int{}
	for i, item := range n.Content {
		key := fmt.Sprintf("%s[%d]", l.key, i)
		q, ok := f.queue(item, key)
		if !ok {
			continue
		}
		if lines[q.Name] > 0 {
			f.fault(f.at(item.Line), key, fmt.Sprintf("queue %s is given twice, first at %s", show(q.Name), f.at(lines[q.Name])))
			continue
		}
		lines[q.Name] = item.Line
		queues = append(queues, q)
	}
	if len(f.errs) == before {
		f.set(l, f.at(n.Line), queues, checkQueues(queues))
	}
}

// queue reads one entry and reports whether it was without fault.
func (f *file) queue(n *yaml.Node, key string) (Queue, bool) {
	if !f.plain(n, key) {
		return Queue{}, false
	}
	if n.Kind != yaml.MappingNode {
		f.fault(f.at(n.Line), key, "is "+kindOf(n)+", must be {name: …, slots: …}")
		return Queue{}, false
	}
	before := len(f.errs)
	q := Queue{Weight: 1}
	missing := []string{"name", "slots"}
	f.pairs(n, key, func(name string, k, v *yaml.Node) {
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
		problem := ""
		switch name {
		case "name":
			q.Name, problem = plainText(v)
			if problem == "" {
				problem = checkName(q.Name)
			}
		case "slots":
			q.Slots, problem = wholeNumber(v, 1, maxSlots)
		case "weight":
			q.Weight, problem = wholeNumber(v, 1, maxWeight)
		case "modes":
			if q.Modes, problem = texts(v); problem == "" {
				problem = checkModes(q.Modes)
			}
		default:
			problem = "unknown key" + didYouMean(Nearest(name, queueFields))
		}
		if problem != "" {
			f.fault(f.at(v.Line), key+"."+name, problem)
		}
	})
	for _, name := range missing {
		f.fault(f.at(n.Line), key+"."+name, "is missing")
	}
	return q, len(f.errs) == before
}

// plainText reads a name; a number would be one in YAML's reading.
func plainText(n *yaml.Node) (string, string) {
	if n.Anchor != "" || n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return "", "is " + kindOf(n) + ", must be text; put it in quotes"
	}
	return n.Value, ""
}

func wholeNumber(n *yaml.Node, least, most int) (int, string) {
	if n.Anchor != "" || n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		return 0, "is " + kindOf(n) + ", must be a whole number"
	}
	return intWithin(n.Value, least, most)
}
