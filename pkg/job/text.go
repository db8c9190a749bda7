package job

import (
	"strings"
	"unicode/utf8"
)

// SanitizeText makes s storable and bounded: bytes that are not UTF-8 become U+FFFD, NUL becomes the two characters
// \0, and a text over limit bytes is cut at a character with " … cut" at its end.
func SanitizeText(s string, limit int) string {
	const mark = " … cut"
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", `\0`)
	if len(s) <= limit {
		return s
	}
	n := max(limit-len(mark), 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
