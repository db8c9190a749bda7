package config

import (
	"strings"
)

// layer is what one source says: values by key, already of their fields' types, and where each was said.
type layer struct {
	values  map[string]any
	sources map[string]string
	errs    []error
}

func newLayer() *layer {
	return &layer{values: map[string]any{}, sources: map[string]string{}}
}

// fault records an error about key.
func (y *layer) fault(source, key, problem string) {
	y.errs = append(y.errs, &Error{Key: key, Source: source, Problem: problem})
}

// set records what source says about l, or why it cannot.
func (y *layer) set(l *leaf, source string, v any, problem string) {
	if problem != "" {
		y.fault(source, l.key, problem)
		return
	}
	y.values[l.key], y.sources[l.key] = v, source
}

// pair makes each secret and its file one setting: a layer that says one of them also empties the other, so that the pair always comes
// from one layer as a whole; saying both is a contradiction.
func (y *layer) pair() {
	for _, l := range known().leaves {
		file := known().fileOf(l)
		if file == nil {
			continue
		}
		_, hasValue := y.values[l.key]
		_, hasFile := y.values[file.key]
		switch {
		case hasValue && hasFile:
			y.fault(y.sources[l.key], l.key, "is given together with "+file.key+" ("+y.sources[file.key]+"); keep one of them")
		case hasValue:
			y.set(file, y.sources[l.key], file.zero(), "")
		case hasFile:
			y.set(l, y.sources[file.key], l.zero(), "")
		}
	}
}

// nested returns the values as the maps of maps that viper merges.
func (y *layer) nested() map[string]any {
	root := map[string]any{}
	for key, v := range y.values {
		at := root
		parts := strings.Split(key, ".")
		for _, p := range parts[:len(parts)-1] {
			next, ok := at[p].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[p] = next
			}
			at = next
		}
		at[parts[len(parts)-1]] = v
	}
	return root
}

// defaults returns the built-in layer.
func defaults() *layer {
	y := newLayer()
	for _, l := range known().leaves {
		v, problem := l.defaultValue()
		y.set(l, "default", v, problem)
	}
	return y
}
