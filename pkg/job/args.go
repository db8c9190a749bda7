package job

import (
	"encoding/json"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// Args is what a job carries: a struct that encodes to JSON and names its kind. Kind must be constant: it is called
// on the zero value as well. A type may also have `Options() Options`, the defaults of its jobs.
//
// Args are encoded with encoding/json, which replaces bytes that are not UTF-8 by U+FFFD without an error; carry such
// bytes as []byte (base64) if they matter. Numbers are stored as they are written, to the last digit.
type Args interface{ Kind() string }

// WithOptions is implemented by Args that have defaults of their own.
type WithOptions interface{ Options() Options }

// Raw is Args whose kind and JSON are data: for tools, and for producers that have no Go type. Its bytes reach the
// handler unchanged.
type Raw struct {
	Name    string          // the kind
	Payload json.RawMessage // empty means {}
}

// Kind returns Name.
func (r Raw) Kind() string { return r.Name }

// MarshalJSON returns Payload.
func (r Raw) MarshalJSON() ([]byte, error) {
	if len(r.Payload) == 0 {
		return []byte("{}"), nil
	}
	return r.Payload, nil
}

// Spec is one job to enqueue: its args and what is special about it.
type Spec struct {
	Args    Args
	Options Options
}

// Encode returns the payload of args and its kind. The error is a *FieldError of "args", "kind" or "payload".
func Encode(args Args) (kind string, payload []byte, err error) {
	if isNil(args) {
		return "", nil, &FieldError{Field: "args", Got: "nil", Limit: "a value with a Kind method"}
	}
	kind = args.Kind()
	if err := ValidateKind(kind); err != nil {
		return "", nil, err
	}
	switch raw := args.(type) { // Marshal would compact a Raw: the bytes would not be the caller's
	case Raw:
		payload, err = raw.MarshalJSON()
	case *Raw:
		payload, err = raw.MarshalJSON()
	default:
		payload, err = json.Marshal(args)
	}
	if err != nil {
		return "", nil, &FieldError{Field: "args", Got: "not encodable: " + SanitizeText(err.Error(), 256), Limit: "a value that encodes to JSON"}
	}
	return kind, payload, ValidatePayload(payload)
}

// isNil reports whether args is nil or a nil pointer, whose Kind method may panic.
func isNil(args Args) bool {
	v := reflect.ValueOf(args)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// ValidatePayload reports a *FieldError unless payload is one JSON text of at most 1 MiB of UTF-8, nested at most 500
// deep. Escapes such as \u0000 and lone surrogates are allowed: the text is stored byte for byte.
func ValidatePayload(payload []byte) error {
	if len(payload) > MaxPayloadBytes {
		return &FieldError{Field: "payload", Got: bytesText(len(payload)), Limit: bytesText(MaxPayloadBytes)}
	}
	if !utf8.Valid(payload) {
		return &FieldError{Field: "payload", Got: "not UTF-8", Limit: "JSON in UTF-8"}
	}
	if d := jsonDepth(payload); d > MaxPayloadDepth {
		return &FieldError{Field: "payload", Got: strconv.Itoa(d) + " levels deep", Limit: strconv.Itoa(MaxPayloadDepth) + " levels"}
	}
	if !json.Valid(payload) {
		return &FieldError{Field: "payload", Got: "not JSON", Limit: "one JSON text"}
	}
	return nil
}

// jsonDepth counts the deepest nesting without recursion, so a hostile payload costs one pass.
func jsonDepth(b []byte) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString:
			if c == '\\' {
				i++
			} else if c == '"' {
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
