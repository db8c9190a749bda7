package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirq/weir/pkg/client"
)

func serves(n int) string {
	if n == 1 {
		return "1 worker serves"
	}
	return number(int64(n)) + " workers serve"
}

func processName(h *client.Holder) string {
	if h.Host == "" {
		return "session " + h.Session.String()
	}
	return fmt.Sprintf("%s/%d", shorten(h.Host, 24), h.PID)
}

// holderLine says who has a lock, in at most 69 characters.
func holderLine(h *client.Holder) string {
	switch {
	case h.Kept && h.Kind == "":
		return fmt.Sprintf("%s  which is not live: for %s", h.ID, span(h.Left))
	case h.Kept:
		return fmt.Sprintf("%s %s  next in line, or let go: for %s", h.ID, shorten(h.Kind, 8), span(h.Left))
	case h.Kind == "":
		return fmt.Sprintf("%s  which is not live: the sweeper takes it away", h.ID)
	}
	return fmt.Sprintf("%s %s", h.ID, shorten(h.Kind, 40))
}

// holderDetails prints where and for how long a holder runs.
func (a *app) holderDetails(indent string, h *client.Holder) {
	if h.Session.IsZero() {
		return
	}
	a.print("%son %s, running %s\n", indent, processName(h), span(h.Since))
	var parts []string
	if h.Timeout > 0 {
		parts = append(parts, "timeout in "+span(h.Timeout-h.Since))
	}
	if h.Lease > 0 {
		parts = append(parts, "lease "+span(h.Lease)+" left")
	} else {
		parts = append(parts, "its process is silent: the next sweep gives it away")
	}
	if p := h.Progress; p != nil {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("at %d %% %s", p.Percent, shorten(p.Note, 20))))
	}
	a.print("%s%s\n", indent, strings.Join(parts, ", "))
}

func limitOfKey(d *client.KeyDetail) string {
	text := fmt.Sprintf("limit %d", d.Limit)
	if d.Entry != nil {
		text += " " + source(d.Entry)
	}
	return text
}

func limitOfRate(r *client.RateDetail) string {
	text := fmt.Sprintf("%s per %s", number(int64(r.N)), perText(r.Per))
	if r.Weight > 1 {
		text += fmt.Sprintf(", weight %d", r.Weight)
	}
	if r.Entry != nil {
		text += " " + source(r.Entry)
	}
	return text
}

// source says in a few words which entry of limits it is.
func source(l *client.Limit) string {
	switch {
	case l.Owner == "config":
		return "by config"
	case l.Prefix:
		return "by " + shorten(l.Key, 10) + "*"
	}
	return "by entry"
}

// perText writes a window: 24h, not 24h0m0s.
func perText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// fit prints head and tail on one line, or on two if they are too long for that.
func (a *app) fit(head, tail string) {
	if utf8.RuneCountInString(head)+1+utf8.RuneCountInString(tail) > 80 {
		a.print("%s\n      %s\n", head, tail)
		return
	}
	a.print("%s %s\n", head, tail)
}

func limitOfQueue(q *client.QueueLimit) string {
	var parts []string
	if q.N > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d run", q.Running, q.N))
	}
	if q.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d started within %s", q.Granted, q.Rate, perText(q.Per)))
	}
	if q.Owner == "config" {
		parts = append(parts, "from config")
	}
	return strings.Join(parts, ", ")
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return number(int64(n)) + suffix
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.:/@%+,-]+$`)

// commandOn returns a command about a name, ready to be typed; nothing if the name cannot be.
func commandOn(command, name string) []string {
	switch {
	case plainWord.MatchString(name) && !strings.HasPrefix(name, "-"):
	case !isClean(name) || strings.HasPrefix(name, "-"):
		return nil
	default:
		name = "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	if len(command)+len(name) > 60 {
		return nil
	}
	return []string{command + " " + name}
}
