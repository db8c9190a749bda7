package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
)

// columns is the widest line of the demo.
const columns = 80

// plainEvery is how often progress is told where it cannot be redrawn.
const plainEvery = time.Second

// screen is where a person follows the demo. It is safe for concurrent use.
type screen struct {
	out    io.Writer
	redraw bool // out is a terminal: the last line is drawn anew, not repeated

	mu     sync.Mutex
	bar    string    // what stands in the last line now; empty: nothing
	toldAt time.Time // when progress was last told in a plain line
	told   int
}

// say writes a line above the bar. An error of the writer is not looked at: the demo goes on without a reader.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fitColumns(fmt.Sprintf(format, args...), columns) + "\n"
	if s.bar != "" {
		line = "\r\x1b[K" + line + s.bar
	}
	_, _ = io.WriteString(s.out, line)
}

// progress draws the bar, or tells once a second how far things are.
func (s *screen) progress(done, total int, rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redraw {
		s.bar = bar(done, total, rate)
		_, _ = io.WriteString(s.out, "\r"+s.bar+"\x1b[K")
		return
	}
	now := time.Now()
	if s.toldAt.IsZero() {
		s.toldAt = now // there is nothing to tell at the start
	}
	isLast := done == total && s.told < total
	if isLast || now.Sub(s.toldAt) >= plainEvery {
		s.toldAt, s.told = now, done
		_, _ = fmt.Fprintf(s.out, "  %s\n", amount(done, total, rate))
	}
}

// clear leaves the bar as it stands and goes on in the next line.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != "" {
		_, _ = io.WriteString(s.out, "\n")
	}
	s.bar = ""
}

// bar is the line of progress: 32 characters for the whole, then figures.
func bar(done, total int, rate float64) string {
	const width = 32
	full := 0
	if total > 0 {
		full = min(done*width/total, width)
	}
	return "  [" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "] " + amount(done, total, rate)
}

func amount(done, total int, rate float64) string {
	percent := 0
	if total > 0 {
		percent = done * 100 / total
	}
	return fmt.Sprintf("%3d %% %7s done %7s jobs/s", percent, number(int64(done)), number(int64(rate+0.5)))
}

// fitColumns cuts a line to width and takes out what would move a terminal's cursor: file names are data.
func fitColumns(line string, width int) string {
	line = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, line)
	if runes := []rune(line); len(runes) > width {
		line = string(runes[:width-1]) + "…"
	}
	return strings.TrimRight(line, " ")
}

// byteSize writes bytes with a unit, powers of 1000.
func byteSize(bytes int64) string {
	switch {
	case bytes >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	case bytes >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	case bytes >= 1e3:
		return fmt.Sprintf("%.1f KB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%d B", bytes)
}

// inMillis writes a duration in milliseconds, one decimal.
func inMillis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
