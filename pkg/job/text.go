package job

import (
	"strings"
	"unicode/utf8"
)

// SanitizeText makes s storable and bounded: bytes that are not UTF-8 become U+FFFD, NUL becomes the two characters
// \0, and a text over limit bytes is cut at a character with " … cut" at its end, or without it where limit has no
// room for that. The result has at most limit bytes.
func SanitizeText(s string, limit int) string {
	mark := " … cut"
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", `\0`)
	if len(s) <= limit {
		return s
	}
	if limit < len(mark) {
		mark = ""
	}
	n := max(limit-len(mark), 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
