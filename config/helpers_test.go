package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirq/weir/config"
)

// read reads text as weir.yaml under an environment of its own.
func read(text string, environ ...string) (*config.Loaded, error) {
	return config.Read(config.Sources{YAML: []byte(text), Environ: environ})
}

// mustRead is read for what has to be right.
func mustRead(t *testing.T, text string, environ ...string) *config.Loaded {
	t.Helper()
	l, err := read(text, environ...)
	if err != nil {
		t.Fatalf("Read(%q, %q): %v", text, environ, err)
	}
	return l
}

// wantError checks that reading fails, with an *Error, and that its text has all parts.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	var fault *config.Error
	if !errors.As(err, &fault) {
		t.Fatalf("got error %v, want an *Error that names %q", err, parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("got error %q, want it to name %q", err, p)
		}
	}
}

// value returns the effective value of key.
func value(t *testing.T, l *config.Loaded, key string) config.Value {
	t.Helper()
	for _, v := range l.Values() {
		if v.Key == key {
			return v
		}
	}
	t.Fatalf("no value for %s", key)
	return config.Value{}
}

// nest writes key: text as sections of YAML, and returns the number of the line that holds text.
func nest(key, text string) (doc string, line int) {
	parts := strings.Split(key, ".")
	var b strings.Builder
	for i, p := range parts {
		b.WriteString(strings.Repeat("  ", i) + p + ":")
		if i < len(parts)-1 {
			b.WriteString("\n")
		}
	}
	b.WriteString(" " + text + "\n")
	return b.String(), len(parts)
}
