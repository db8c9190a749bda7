package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	typeString   = reflect.TypeFor[string]()
	typeSecret   = reflect.TypeFor[Secret]()
	typeInt      = reflect.TypeFor[int]()
	typeBool     = reflect.TypeFor[bool]()
	typeDuration = reflect.TypeFor[time.Duration]()
	typeQueues   = reflect.TypeFor[[]Queue]()
	typeLimits   = reflect.TypeFor[[]Limit]()
	typeFleet    = reflect.TypeFor[[]QueueLimit]()
	typeSchedule = reflect.TypeFor[[]Schedule]()
	typeHandlers = reflect.TypeFor[[]Handler]()
	typeBytes    = reflect.TypeFor[Bytes]()
	typeWords    = reflect.TypeFor[[]string]()
)

// leaf is one setting: a field of Config that is not a struct, with what its tags say.
type leaf struct {
	key   string // "timing.lease"
	env   string // "WEIR_TIMING_LEASE"
	index []int  // of the field in Config
	typ   reflect.Type
	def   string   // the default as text; empty for none
	form  string   // namespace, word, listen, path, postgres, redis; empty for any text
	oneOf []string // the words allowed; nil for any
	auto  string   // what "auto" stands for; empty if the word is not allowed
	min   string   // the least value of a number or duration, as text
	max   string   // the largest
}

// field returns the leaf's value in c.
func (l *leaf) field(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(l.index)
}

// branch is a section of the file: what may stand in it, by name.
type branch struct {
	key      string
	leaves   map[string]*leaf
	branches map[string]*branch
}

// schema is all that is known about Config, read from its type once.
type schema struct {
	root   *branch
	leaves []*leaf // sorted by key
	byKey  map[string]*leaf
	byEnv  map[string]*leaf
	names  []string // all keys, sections too, sorted: what Nearest is asked about
	envs   []string
}

// known is the schema of Config. Two keys that join to one variable, and a default that does not parse, are mistakes in this
// package, so it panics on them.
var known = sync.OnceValue(func() *schema {
	s := &schema{byKey: map[string]*leaf{}, byEnv: map[string]*leaf{}}
	s.root = s.add(reflect.TypeFor[Config](), "", nil, "")
	slices.SortFunc(s.leaves, func(a, b *leaf) int { return cmp.Compare(a.key, b.key) })
	for _, l := range s.leaves {
		if s.byEnv[l.env] != nil {
			panic("config: two keys for " + l.env)
		}
		s.byKey[l.key], s.byEnv[l.env] = l, l
		s.envs = append(s.envs, l.env)
		if _, problem := l.defaultValue(); problem != "" {
			panic(fmt.Sprintf("config: default of %s %s", l.key, problem))
		}
	}
	slices.Sort(s.names)
	return s
})

// add reads the fields of t, a section named key, and returns it. def is the default that its leaves inherit.
func (s *schema) add(t reflect.Type, key string, index []int, def string) *branch {
	b := &branch{key: key, leaves: map[string]*leaf{}, branches: map[string]*branch{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("mapstructure")
		path := join(key, name)
		at := append(slices.Clone(index), i)
		s.names = append(s.names, path)
		if f.Type.Kind() == reflect.Struct {
			b.branches[name] = s.add(f.Type, path, at, f.Tag.Get("default"))
			continue
		}
		l := &leaf{
			key: path, env: envName(path), index: at, typ: f.Type,
			def: cmp.Or(f.Tag.Get("default"), def), form: f.Tag.Get("form"),
			auto: f.Tag.Get("auto"), min: f.Tag.Get("min"), max: f.Tag.Get("max"),
		}
		if words := f.Tag.Get("oneof"); words != "" {
			l.oneOf = strings.Split(words, "|")
		}
		b.leaves[name] = l
		s.leaves = append(s.leaves, l)
	}
	return b
}

// defaultValue returns the built-in value; the zero value when there is none.
func (l *leaf) defaultValue() (any, string) {
	if l.def == "" {
		return l.zero(), ""
	}
	return l.fromText(l.def)
}

// zero returns the empty value of the leaf's type.
func (l *leaf) zero() any {
	switch l.typ {
	case typeWords:
		return []string{}
	case typeLimits:
		return []Limit{}
	case typeFleet:
		return []QueueLimit{}
	case typeHandlers:
		return []Handler{}
	case typeSchedule:
		return []Schedule{}
	}
	return reflect.Zero(l.typ).Interface()
}

// fileOf returns the leaf that names a file for the secret l, or nil.
func (s *schema) fileOf(l *leaf) *leaf {
	if l.typ != typeSecret {
		return nil
	}
	return s.byKey[l.key+"_file"]
}

// nearest returns the known key most like key: by its whole path, else one whose last part is the same or alike.
func (s *schema) nearest(key string) string {
	last := key[strings.LastIndexByte(key, '.')+1:]
	for _, name := range s.names {
		if strings.HasSuffix(name, "."+last) || name == last {
			return name
		}
	}
	if n := Nearest(key, s.names); n != "" {
		return n
	}
	for _, name := range s.names {
		if Nearest(last, []string{name[strings.LastIndexByte(name, '.')+1:]}) != "" {
			return name
		}
	}
	return ""
}

// Key describes one setting, for help texts.
type Key struct {
	Key     string   // "timing.lease"
	Env     string   // "WEIR_TIMING_LEASE"
	Default string   // as it is written in a file or variable; empty for none
	Auto    string   // what the value auto stands for; empty if it is not allowed
	Words   []string // the words allowed; nil if it is not a choice
	Min     string   // the least value allowed; empty if it has no order
	Max     string   // the largest value allowed
	Secret  bool     // never printed
}

// Keys returns every setting, sorted by key.
func Keys() []Key {
	var keys []Key
	for _, l := range known().leaves {
		keys = append(keys, Key{
			Key: l.key, Env: l.env, Default: l.def, Auto: l.auto, Words: slices.Clone(l.oneOf),
			Min: l.min, Max: l.max, Secret: l.typ == typeSecret,
		})
	}
	return keys
}

func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
