package job_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/job"
)

func TestTextsAreMadeStorableAndCutAtACharacter(t *testing.T) {
	t.Parallel()
	const mark = " … cut" // 8 bytes
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"nothing":                         {"", 10, ""},
		"a text as it should be":          {"boom: Zoë 🙂\n\tat x", 100, "boom: Zoë 🙂\n\tat x"},
		"a NUL":                           {"boom \x00 tail", 100, `boom \0 tail`},
		"a byte that is not UTF-8":        {"D\xfcs", 100, "D\ufffds"},
		"several such bytes become one":   {"D\xff\xfe\xfds", 100, "D\ufffds"},
		"a surrogate as bytes":            {"a\xed\xa0\x80b", 100, "a\ufffdb"},
		"a text of exactly the limit":     {"0123456789", 10, "0123456789"},
		"one byte more":                   {"0123456789a", 10, "01" + mark},
		"a cut within a character of two": {"0éééééééé", 10, "0" + mark},
		"a cut within a character of four": {
			"🙂🙂🙂🙂", 15, "🙂" + mark,
		},
		"NULs that grow over the limit":      {strings.Repeat("\x00", 6), 10, `\0` + mark},
		"bytes that grow over the limit":     {"\xffa\xffa\xffa", 11, "\ufffd" + mark},
		"a limit that fits the mark alone":   {"0123456789", 8, mark},
		"a limit with no room for the mark":  {"0123456789", 7, "0123456"},
		"such a limit within a character":    {"éééé", 3, "é"},
		"a limit of nothing":                 {"0123456789", 0, ""},
		"a negative limit":                   {"0123456789", -5, ""},
		"a negative limit and an empty text": {"", -5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := job.SanitizeText(c.text, c.limit); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAnyTextIsMadeStorable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.Just(byte(0)), rapid.ByteRange('a', 'z'))).Draw(t, "bytes")) +
			rapid.String().Draw(t, "text")
		limit := rapid.IntRange(-1, 64).Draw(t, "limit")
		got := job.SanitizeText(text, limit)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || len(got) > max(limit, 0) {
			t.Fatalf("got %q of %d bytes, want at most %d of UTF-8 without NUL", got, len(got), limit)
		}
		if again := job.SanitizeText(got, limit); again != got {
			t.Fatalf("made storable twice: got %q, want %q", again, got)
		}
		if utf8.ValidString(text) && !strings.ContainsRune(text, 0) && len(text) <= limit && got != text {
			t.Fatalf("got %q, want a good text unchanged: %q", got, text)
		}
	})
}
