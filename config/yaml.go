package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file reads YAML strictly. It works on nodes, since a decoded map has lost the lines and the kinds of its values, and viper would
// have folded the case of its keys.
type file struct {
	*layer
	name string // how errors call it
}

// layerFrom reads text, the content of the file called name.
func layerFrom(name string, text []byte) *layer {
	f := &file{layer: newLayer(), name: name}
	if root := f.parse(text); root != nil {
		f.section(root, known().root)
	}
	f.pair()
	return f.layer
}

// parse returns the only document's top node, or nil if there is none or it is not YAML.
func (f *file) parse(text []byte) *yaml.Node {
	if line := tabLine(text); line > 0 {
		f.fault(f.at(line), "", "is indented with a tab; use spaces")
		return nil
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := d.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) { // a file of comments is empty, not wrong
			f.syntax(err, text)
		}
		return nil
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			f.syntax(err, text)
			return nil
		}
		f.fault(f.at(more.Line), "", "begins a second document; a configuration is one")
		return nil
	}
	if len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

var (
	yamlLine   = regexp.MustCompile(`line ([0-9]+): (.*)`)
	yamlAnchor = regexp.MustCompile(`anchor '(.*)'`)
)

// syntax reports an error of the parser. Its text is fixed, except that it quotes the name of an unknown anchor, which is what a password
// that begins with an asterisk is taken for.
func (f *file) syntax(err error, text []byte) {
	source, problem := f.name, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(problem); m != nil {
		line, _ := strconv.Atoi(m[1])
		source, problem = f.at(line), m[2]
	}
	if m := yamlAnchor.FindStringSubmatch(problem); m != nil {
		if before, _, ok := bytes.Cut(text, []byte("*"+m[1])); ok {
			source = f.at(1 + bytes.Count(before, []byte("\n"))) // the parser does not say
		}
		problem = "an alias (*) without its anchor; put text that begins with an asterisk in quotes"
	}
	f.fault(source, "", "is not valid YAML: "+problem)
}

func (f *file) at(line int) string { return fmt.Sprintf("%s:%d", f.name, line) }

// tabLine returns the first line whose indentation holds a tab, or 0. The parser takes some of them and calls others by confusing names.
func tabLine(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if bytes.IndexByte(indent, '\t') >= 0 {
			return n
		}
	}
	return 0
}

// section reads a mapping against what may stand in b.
func (f *file) section(n *yaml.Node, b *branch) {
	if !f.plain(n, b.key) || isNull(n) { // a section whose keys are all comments says nothing
		return
	}
	if n.Kind != yaml.MappingNode {
		f.fault(f.at(n.Line), b.key, "is "+kindOf(n)+", must be a section of keys (key: value, with a space after the colon)")
		return
	}
	f.pairs(n, b.key, func(name string, k, v *yaml.Node) {
		if l := b.leaves[name]; l != nil {
			f.leaf(v, l)
		} else if sub := b.branches[name]; sub != nil {
			f.section(v, sub)
		} else {
			f.unknown(k, join(b.key, name))
		}
	})
}

// pairs calls fn for each key of a mapping, once; section is its path, for errors.
func (f *file) pairs(n *yaml.Node, section string, fn func(name string, k, v *yaml.Node)) {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind == yaml.AliasNode || k.ShortTag() == "!!merge":
			f.fault(f.at(k.Line), section, "uses an alias or merge key (<<); write the values out")
		case k.Kind != yaml.ScalarNode || !plainKey.MatchString(k.Value):
			f.fault(f.at(k.Line), section, "has a key that is not a plain word (is a space missing after a colon?)")
		case lines[k.Value] > 0:
			f.fault(f.at(k.Line), join(section, k.Value), "is given twice, first at "+f.at(lines[k.Value]))
		default:
			lines[k.Value] = k.Line
			fn(k.Value, k, v)
		}
	}
}

func (f *file) unknown(k *yaml.Node, key string) {
	problem := "unknown key"
	if near := known().nearest(key); near == key {
		problem += "; write it as nested sections, not with a dot"
	} else {
		problem += didYouMean(near)
	}
	f.fault(f.at(k.Line), key, problem)
}

// leaf reads one setting.
func (f *file) leaf(n *yaml.Node, l *leaf) {
	if !f.plain(n, l.key) {
		return
	}
	if isNull(n) {
		f.fault(f.at(n.Line), l.key, "has no value; leave the key out instead")
		return
	}
	switch l.typ {
	case typeQueues:
		f.queues(n, l)
		return
	case typeWords:
		f.words(n, l)
		return
	case typeLimits:
		f.limits(n, l)
		return
	case typeFleet:
		f.queueLimits(n, l)
		return
	case typeHandlers:
		f.handlers(n, l)
		return
	case typeSchedule:
		f.schedules(n, l)
		return
	case typeHandlers:
		f.handlers(n, l)
		return
	}
	if problem := scalar(n, l); problem != "" {
		f.fault(f.at(n.Line), l.key, problem)
		return
	}
	v, problem := l.fromText(n.Value)
	f.set(l, f.at(n.Line), v, problem)
}

// scalar says why n is not a value of l's kind. YAML decides the kind: 5 is a number, "5" is text.
func scalar(n *yaml.Node, l *leaf) string {
	want, words := "!!str", "text"
	switch l.typ {
	case typeInt:
		want, words = "!!int", "a whole number"
	case typeBool:
		want, words = "!!bool", "true or false"
	case typeDuration:
		words = "a duration with its unit, such as " + l.example()
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == want || l.auto != "" && n.Value == autoWord {
		return ""
	}
	got := kindOf(n)
	if n.Kind == yaml.ScalarNode && l.typ != typeSecret {
		got = show(n.Value) + ", " + got
	}
	hint := ""
	if want == "!!str" && n.Kind == yaml.ScalarNode && l.typ != typeDuration {
		hint = "; put it in quotes"
	}
	return "is " + got + ", must be " + words + l.orAuto() + hint
}

func (f *file) words(n *yaml.Node, l *leaf) {
	if n.Kind != yaml.SequenceNode {
		f.fault(f.at(n.Line), l.key, "is "+kindOf(n)+", must be a list of words: [one, two]")
		return
	}
	var items []string
	for i, item := range n.Content {
		key := fmt.Sprintf("%s[%d]", l.key, i)
		if !f.plain(item, key) {
			return
		}
		if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" {
			f.fault(f.at(item.Line), key, "is "+kindOf(item)+", must be a word")
			return
		}
		items = append(items, item.Value)
	}
	v, problem := l.wordsFrom(items)
	f.set(l, f.at(n.Line), v, problem)
}

// plain refuses what YAML can say and a configuration should not: anchors, aliases and tags of its own.
func (f *file) plain(n *yaml.Node, key string) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		f.fault(f.at(n.Line), key, "uses an anchor (&) or alias (*); write the value out, or put it in quotes if it is text")
	case strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.ShortTag(), "!!"):
		f.fault(f.at(n.Line), key, "has a tag of its own (!); put text that begins with an exclamation mark in quotes")
	default:
		return true
	}
	return false
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!str":
		return "text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a truth value"
	case "!!null":
		return "null"
	case "!!timestamp":
		return "a date"
	}
	return "something else"
}
