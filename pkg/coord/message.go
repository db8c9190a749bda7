package coord

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxMessage bounds every message, in bytes: pub/sub buffers are counted in bytes, and 50,000 waiting hints must stay
// well below Redis' default limit for a slow subscriber (8 MB for a minute, 32 MB at once).
const maxMessage = 199

// Limits of what a message may name, in bytes, and the greatest count; above it a count is cut.
const (
	maxName  = 128
	maxVerb  = 16
	maxID    = 40
	maxCount = 1_000_000_000
)

// The first byte of a message says what it is. Others are ignored: a later release may send them.
const (
	typeHint    = 'h'
	typeControl = 'c'
	typeEcho    = 'e'
)

var errMessage = errors.New("coord: not a message")

// hintBody writes a hint without its leading "h<count>", which wake.lua puts before it: each worker is told its share.
//
//	h3+ 0 g4xk2y1abc 4 12 mailmail.welcome
//
// is type and count (a + behind it: the worker still stands in the idle set), hops, ready_at (microseconds, base 36, nothing for the zero time; a ~ before it: early), lengths of
// queue and kind in bytes, queue, kind. Lengths, not separators, part the names, so that these may hold any byte; what follows them is
// ignored. A kind that does not fit is left out, which reads as "any": the receiver asks the database anyway.
func hintBody(h Hint) string {
	ready := ""
	if !h.ReadyAt.IsZero() {
		ready = strconv.FormatInt(h.ReadyAt.UnixMicro(), 36)
	}
	if h.Early {
		ready = "~" + ready
	}
	body := func(kind string) string {
		return fmt.Sprintf(" %d %s %d %d %s%s", h.Hops, ready, len(h.Queue), len(kind), h.Queue, kind)
	}
	const head = len("h1000000000+")
	if full := body(h.Kind); head+len(full) <= maxMessage {
		return full
	}
	return body("")
}

// parseHint reads what wake.lua sent.
func parseHint(message string) (Hint, error) {
	if message == "" || message[0] != typeHint {
		return Hint{}, errMessage
	}
	fields, rest, ok := cutFields(message[1:], 5)
	if !ok {
		return Hint{}, errMessage
	}
	var h Hint
	var errCount, errHops, errReady error
	count, stays := strings.CutSuffix(fields[0], "+")
	h.Stays = stays
	h.Count, errCount = number(count)
	h.Hops, errHops = number(fields[1])
	ready, early := strings.CutPrefix(fields[2], "~")
	h.Early = early
	if ready != "" {
		var micros int64
		micros, errReady = strconv.ParseInt(ready, 36, 64)
		h.ReadyAt = time.UnixMicro(micros).UTC()
	}
	if errCount != nil || errHops != nil || errReady != nil {
		return Hint{}, errMessage
	}
	if !cutNames(fields[3:], rest, &h.Queue, &h.Kind) {
		return Hint{}, errMessage
	}
	return h, nil
}

// controlMessage writes "c<lengths> " and the four texts. With the limits above verb, id and queue always fit; a kind
// that does not is left out.
func controlMessage(c Control) string {
	write := func(kind string) string {
		return fmt.Sprintf("c%d %d %d %d %s%s%s%s",
			len(c.Verb), len(c.ID), len(c.Queue), len(kind), c.Verb, c.ID, c.Queue, kind)
	}
	if full := write(c.Kind); len(full) <= maxMessage {
		return full
	}
	return write("")
}

func parseControl(message string) (Control, error) {
	if message == "" || message[0] != typeControl {
		return Control{}, errMessage
	}
	lengths, rest, ok := cutFields(message[1:], 4)
	if !ok {
		return Control{}, errMessage
	}
	var c Control
	if !cutNames(lengths, rest, &c.Verb, &c.ID, &c.Queue, &c.Kind) {
		return Control{}, errMessage
	}
	return c, nil
}

// cutFields takes n fields, each ended by one space, off the front of s.
func cutFields(s string, n int) (fields []string, rest string, ok bool) {
	fields = make([]string, n)
	for i := range fields {
		if fields[i], s, ok = strings.Cut(s, " "); !ok {
			return nil, "", false
		}
	}
	return fields, s, true
}

// cutNames takes as many bytes as each length says off the front of s.
func cutNames(lengths []string, s string, names ...*string) bool {
	for i, name := range names {
		n, err := number(lengths[i])
		if err != nil || n > len(s) {
			return false
		}
		*name, s = s[:n], s[n:]
	}
	return true
}

// number reads a decimal from 0 to maxCount.
func number(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > maxCount {
		return 0, errMessage
	}
	return int(n), nil
}
