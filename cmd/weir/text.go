package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// escape makes data safe for a terminal: what is not printable, line breaks included, is shown as a Go escape. A payload,
// name or error can hold sequences that retitle the window, clear the screen or forge lines.
func escape(s string) string {
	if isClean(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case isShown(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

func isShown(r rune) bool { return r == ' ' || strconv.IsPrint(r) }

func isClean(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !isShown(r) {
			return false
		}
	}
	return true
}

// clean returns a writer that escapes what reaches it, line breaks and tabs apart: the net below escape, so that a text that
// nobody thought of is safe too. A character must not be split between two writes.
func clean(w io.Writer) io.Writer { return cleanWriter{w} }

type cleanWriter struct{ w io.Writer }

func (c cleanWriter) Write(p []byte) (int, error) {
	var b strings.Builder
	for rest := string(p); rest != ""; {
		i := strings.IndexAny(rest, "\n\t")
		if i < 0 {
			b.WriteString(escape(rest))
			break
		}
		b.WriteString(escape(rest[:i]))
		b.WriteByte(rest[i])
		rest = rest[i+1:]
	}
	if _, err := io.WriteString(c.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// print prints text that may hold data.
func (a *app) print(format string, args ...any) {
	_, _ = fmt.Fprintf(clean(a.out), format, args...)
}

// printJSON prints v as one line. encoding/json leaves U+007F to U+009F as they are, which terminals obey; inside a string,
// the only place where they can be, they may be written as escapes.
func (a *app) printJSON(v any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode as JSON: %w", err)
	}
	_, err := io.WriteString(a.out, escapeJSON(strings.TrimRight(b.String(), "\n"))+"\n")
	return err
}

func escapeJSON(text string) string {
	if isClean(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case isShown(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// table prints rows below a head, each column as wide as its widest cell. Columns whose head starts with a > are flush right.
func (a *app) table(head []string, rows [][]string) {
	width := make([]int, len(head))
	right := make([]bool, len(head))
	for i, h := range head {
		right[i] = strings.HasPrefix(h, ">")
		head[i] = strings.TrimPrefix(h, ">")
	}
	all := append([][]string{head}, rows...)
	for _, row := range all {
		for i := range row {
			row[i] = escape(row[i])
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range all {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				b.WriteString("  ")
			}
			if right[i] {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
		}
		a.print("%s\n", strings.TrimRight(b.String(), " "))
	}
}

// shorten cuts s to n characters.
func shorten(s string, n int) string {
	s = escape(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// span writes a length of time in at most five characters: 0.4s, 12.4s, 3.1h, 14d.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < 100*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 100*time.Minute:
		return fmt.Sprintf("%.0fm", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.1fh", d.Hours())
	}
	return fmt.Sprintf("%.0fd", d.Hours()/24)
}

// number writes n with commas.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// dash writes - for nothing.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(int64(n)) + " " + what + "s"
}
