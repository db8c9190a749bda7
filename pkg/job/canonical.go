package job

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The canonical form of a JSON text: one text for all that mean the same. It is stored only as a hash, and must not change between
// versions of Go or of Weir, so it is written here and not by encoding/json.

// parseJSON reads one JSON text with its numbers as they are written.
func parseJSON(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// canonical appends the canonical form of what parseJSON returned.
func canonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case json.Number:
		return canonicalNumber(dst, v.String())
	case string:
		return canonicalString(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = canonical(dst, e)
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = canonicalString(dst, name)
			dst = append(dst, ':')
			dst = canonical(dst, v[name])
		}
		return append(dst, '}')
	}
	panic(fmt.Sprintf("job: %T in a JSON text", v))
}

func canonicalString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// canonicalNumber appends a number as its significant digits and a power of ten: exactly, since 2^53+1 and 2^53 are two ids.
func canonicalNumber(dst []byte, text string) []byte {
	number, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(number, "-"), ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return append(dst, '0')
	}
	power := int64(0)
	if exponent != "" {
		var err error
		if power, err = strconv.ParseInt(exponent, 10, 32); err != nil {
			return append(dst, text...) // beyond all that counts anything
		}
	}
	short := strings.TrimRight(digits, "0")
	power += int64(len(digits)-len(short)) - int64(len(fraction))
	if number[0] == '-' {
		dst = append(dst, '-')
	}
	dst = append(dst, short...)
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, power, 10)
}

// pick returns what stands at paths, in its place; all if there are none or v is no object.
func pick(v any, paths [][]string) any {
	object, ok := v.(map[string]any)
	if len(paths) == 0 || !ok {
		return v
	}
	picked := map[string]any{}
	for _, path := range paths {
		from, to := object, picked
		for _, name := range path[:len(path)-1] {
			if from, ok = from[name].(map[string]any); !ok {
				break
			}
			next, isThere := to[name].(map[string]any)
			if !isThere {
				next = map[string]any{}
				to[name] = next
			}
			to = next
		}
		last := path[len(path)-1]
		if value, isThere := from[last]; ok && isThere {
			to[last] = value
		}
		ok = true
	}
	return picked
}

// fieldsOf is what uniqueFields has found.
type fieldsOf struct {
	paths [][]string
	err   error
}

var knownFields sync.Map // reflect.Type: fieldsOf

// uniqueFields returns the JSON names of the fields of a struct that have the tag `weir:"unique"`, each as its path. The error is
// a *FieldError.
func uniqueFields(t reflect.Type) ([][]string, error) {
	if known, ok := knownFields.Load(t); ok {
		f := known.(fieldsOf)
		return f.paths, f.err
	}
	var f fieldsOf
	f.paths, f.err = taggedFields(t, nil, nil)
	knownFields.Store(t, f)
	return f.paths, f.err
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func taggedFields(t reflect.Type, at []string, within []reflect.Type) (paths [][]string, err error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(within, t) {
		return nil, nil
	}
	if len(at) > 0 && (reflect.PointerTo(t).Implements(marshaler) || reflect.PointerTo(t).Implements(textMarshaler)) {
		return nil, nil // its fields are not its JSON
	}
	within = append(within, t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag, isTagged := f.Tag.Lookup("weir")
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		isHidden := f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous
		isInline := f.Anonymous && name == "" && isStruct(f.Type)
		switch {
		case isTagged && tag != "unique":
			return nil, tagError(t, f, fmt.Sprintf("the tag weir:%.64q", tag), `weir:"unique"`)
		case isTagged && (isHidden || isInline):
			return nil, tagError(t, f, "no field of the JSON", "the tag on fields that are")
		case isHidden:
			continue
		}
		path := slices.Clip(at)
		if name == "" {
			name = f.Name
		}
		if !isInline {
			path = append(path, name)
		}
		if isTagged {
			paths = append(paths, path)
			continue
		}
		inner, err := taggedFields(f.Type, path, within)
		if err != nil {
			return nil, err
		}
		paths = append(paths, inner...)
	}
	return paths, nil
}

func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

func tagError(t reflect.Type, f reflect.StructField, got, want string) error {
	return &FieldError{Field: "Unique", Got: fmt.Sprintf("ByArgs with %s on %s.%s", got, t, f.Name), Limit: want}
}
