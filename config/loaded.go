package config

import (
	"errors"
	"fmt"
	"strings"
)

// Loaded is a configuration that was read and found right. It is not changed after Load, so that it may be shared;
// a program that overrides a field of Config by itself answers for its value.
type Loaded struct {
	Config Config

	path    string
	sources map[string]string // by key
}

// Value is one effective setting, for weir config.
type Value struct {
	Key    string `json:"key"`    // "timing.lease"
	Value  string `json:"value"`  // as a file or variable would give it; a secret is [redacted], or empty if not set
	Source string `json:"source"` // "default", "weir.yaml:12", "WEIR_TIMING_LEASE", "/run/secrets/dsn (weir.yaml:3)"
}

// Path returns the name of the configuration file; empty if there was none.
func (l *Loaded) Path() string { return l.path }

// Source returns where a setting's value came from, for errors about what it led to; empty for an unknown key.
func (l *Loaded) Source(key string) string { return l.sources[key] }

// Values returns every setting, sorted by key.
func (l *Loaded) Values() []Value {
	var values []Value
	for _, leaf := range known().leaves {
		field := leaf.field(&l.Config)
		text := leaf.format(field.Interface())
		if leaf.auto != "" && field.IsZero() {
			text = autoWord
		}
		values = append(values, Value{Key: leaf.key, Value: text, Source: l.sources[leaf.key]})
	}
	return values
}

// Require returns an error for each of the keys that has no value, which says how to give it one. It is for settings that only some
// commands need, such as postgres.url. It panics on an unknown key.
func (l *Loaded) Require(keys ...string) error {
	var errs []error
	for _, key := range keys {
		leaf := known().byKey[key]
		if leaf == nil {
			panic("config: no setting " + key)
		}
		if !leaf.field(&l.Config).IsZero() {
			continue
		}
		ways := []string{leaf.env}
		if file := known().fileOf(leaf); file != nil {
			ways = append(ways, file.env)
		}
		where := "in a file named by --config or " + envConfig
		if l.path != "" {
			where = "in " + l.path
		}
		errs = append(errs, &Error{Key: key, Problem: fmt.Sprintf("is not set: set %s, or %s %s", strings.Join(ways, " or "), key, where)})
	}
	return errors.Join(errs...)
}

// Warnings returns what is allowed and yet perhaps not meant, a sentence each, for the log at the start.
func (l *Loaded) Warnings() []string {
	var warnings []string
	w := l.Config.Worker
	if slots := slotsOf(w.Queues); w.Concurrency > slots {
		warnings = append(warnings, fmt.Sprintf("worker.concurrency %d (%s) is more than the %d slots of worker.queues (%s): no more than %d jobs will run at once",
			w.Concurrency, l.sources["worker.concurrency"], slots, l.sources["worker.queues"], slots))
	}
	if off := l.Config.Sweeper.DutiesOff; len(off) > 0 {
		warnings = append(warnings, fmt.Sprintf("sweeper.duties_off (%s) leaves %s to another sweeper of this namespace: see that there is one",
			l.sources["sweeper.duties_off"], strings.Join(off, ", ")))
	}
	return warnings
}
