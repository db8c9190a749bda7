package job

import (
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// The limits and defaults of a job. Each limit is checked before any SQL; CHECKs in the schema repeat what SQL, which is
// a producer too, could get past.
const (
	DefaultQueue       = "default"
	DefaultPriority    = 5
	DefaultMaxAttempts = 25
	DefaultTimeout     = time.Hour

	MaxPriority     = 9        // the last served; 1 is the first
	MaxMaxAttempts  = 10_000   // the most that MaxAttempts may say
	MaxNameBytes    = 128      // kind, queue, tag, metadata name
	MaxPayloadBytes = 1 << 20  // 1 MiB of JSON
	MaxPayloadDepth = 500      // nested arrays and objects; Postgres' parser has a stack
	MaxResultBytes  = 64 << 10 // 64 KiB of JSON
	MaxErrorBytes   = 16 << 10 // 16 KiB of an attempt's error; what is longer is cut
	MaxStackBytes   = 16 << 10 // 16 KiB of a panic's stack; what is longer is cut
	MaxBatch        = 10_000   // jobs a call
	MaxTags         = 32
	MaxMetadata     = 32   // entries
	MaxValueBytes   = 1024 // a metadata value
)

// FieldError reports a value that Weir refuses, before anything was sent.
type FieldError struct {
	Field string // as in Options, Filter or Config, or what the call is about: "args", "payload", "kind", "queue", "id", …
	Got   string // what was given, shortened; never a payload's content
	Limit string // what would be accepted
	Index int    // position in EnqueueMany's slice; 0 for a single job
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("job: %s is %s, want %s", e.Field, e.Got, e.Limit)
}

// ValidateKind reports a *FieldError unless kind is 1 to 128 of the characters A-Z a-z 0-9 _ . : / -
func ValidateKind(kind string) error { return validateKind("kind", kind) }

func validateKind(field, kind string) error {
	const limit = "1 to 128 characters of A-Z a-z 0-9 _ . : / -"
	if kind == "" {
		return &FieldError{Field: field, Got: "empty", Limit: limit}
	}
	if len(kind) > MaxNameBytes {
		return &FieldError{Field: field, Got: bytesText(len(kind)), Limit: limit}
	}
	for i := range len(kind) {
		if !kindByte(kind[i]) {
			return &FieldError{Field: field, Got: quoteShort(kind), Limit: limit}
		}
	}
	return nil
}

func kindByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return c == '_' || c == '.' || c == ':' || c == '/' || c == '-'
}

// ValidateQueue reports a *FieldError unless queue is 1 to 128 bytes of UTF-8 without control characters.
func ValidateQueue(queue string) error { return validateName("queue", queue) }

func validateName(field, name string) error {
	const limit = "1 to 128 bytes of UTF-8 without control characters"
	if name == "" {
		return &FieldError{Field: field, Got: "empty", Limit: limit}
	}
	if len(name) > MaxNameBytes {
		return &FieldError{Field: field, Got: bytesText(len(name)), Limit: limit}
	}
	if !printable(name) {
		return &FieldError{Field: field, Got: quoteShort(name), Limit: limit}
	}
	return nil
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

func bytesText(n int) string { return strconv.Itoa(n) + " bytes" }

func quoteShort(s string) string {
	if len(s) > 64 {
		return strconv.Quote(s[:64]) + "…"
	}
	return strconv.Quote(s)
}
