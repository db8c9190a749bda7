package job_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weirq/weir/pkg/job"
)

func TestKindsAreOf1To128PlainCharacters(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"a", "Z", "0", "mail.welcome", "a:b/c-d_e.F9", ":", "..", "https://h/p", strings.Repeat("k", 128)} {
		if err := job.ValidateKind(kind); err != nil {
			t.Errorf("kind %q: got %v, want it accepted", kind, err)
		}
	}
	for _, kind := range []string{
		"", " ", "a b", "a\n", "x\x00y", "{x}", "a{b", "}", "*", "?", "[a]", `\`, "a?x=1", "é", "e\u0301", "🙂", "\xff", "a@b", "a,b",
		strings.Repeat("k", 129), strings.Repeat("é", 32), strings.Repeat("k", 10_000),
	} {
		wantField(t, job.ValidateKind(kind), "kind", "128 characters")
	}
}

func TestQueuesAreOf1To128BytesWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	for _, queue := range []string{
		"q", "default", "a:b", "{x}", "a{b", "}", "*", "?", "[a]", `\`, "a b", " ", "é", "e\u0301", "🙂", "https://h/p?x=1", `"`, "%", "\ufffd",
		strings.Repeat("q", 62), strings.Repeat("q", 63), strings.Repeat("q", 64), strings.Repeat("q", 128),
		strings.Repeat("é", 32), strings.Repeat("é", 64),
	} {
		if err := job.ValidateQueue(queue); err != nil {
			t.Errorf("queue %q: got %v, want it accepted", queue, err)
		}
	}
	for _, queue := range []string{
		"", "x\x00y", "\n", "a\tb", "\x1f", "\x7f", "\u0085", "\xff", "q\xed\xa0\x80", "\xc0\x80",
		strings.Repeat("q", 129), strings.Repeat("é", 64) + "q", strings.Repeat("q", 200), strings.Repeat("q", 10_000),
	} {
		wantField(t, job.ValidateQueue(queue), "queue", "128 bytes")
		_, err := job.Options{Queue: queue}.Complete()
		if queue != "" { // there it means the default
			wantField(t, err, "Queue", "128 bytes")
		}
	}
}

func TestATextThatTellsOfABadNameIsShortAndStorable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{strings.Repeat("\xff", 128), strings.Repeat("é", 63) + "\n", strings.Repeat("\x00", 100)} {
		for _, err := range []error{job.ValidateKind(name), job.ValidateQueue(name)} {
			if text := err.Error(); !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || len(text) > 512 {
				t.Errorf("got %q, want a short text without control characters", text)
			}
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "default", "mail.welcome", "a:b", "{x}", "é", "e\u0301", "🙂", "x\x00y", "\xff", "\u0085", strings.Repeat("é", 65)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		fits := name != "" && len(name) <= job.MaxNameBytes && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
		queueErr := job.ValidateQueue(name)
		if (queueErr == nil) != fits {
			t.Errorf("queue %q: got %v, want accepted: %v", name, queueErr, fits)
		}
		const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-"
		kindErr := job.ValidateKind(name)
		if want := fits && strings.Trim(name, plain) == ""; (kindErr == nil) != want {
			t.Errorf("kind %q: got %v, want accepted: %v", name, kindErr, want)
		}
		for field, err := range map[string]error{"queue": queueErr, "kind": kindErr} {
			if err != nil {
				wantField(t, err, field, "128")
			}
		}
		// Every place that takes such a name has the same rule.
		_, tagErr := job.Options{Tags: []string{name}}.Complete()
		_, nameErr := job.Options{Metadata: map[string]string{name: ""}}.Complete()
		if (tagErr == nil) != fits || (nameErr == nil) != fits {
			t.Errorf("%q as a tag: got %v, as a metadata name: %v, want accepted: %v", name, tagErr, nameErr, fits)
		}
	})
}
