package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"
)

// line is one figure against one peer. Ratio is ours/theirs, for rates, times and costs alike.
type line struct {
	Case   string  `json:"case"`
	Peer   string  `json:"peer"`
	Ours   float64 `json:"ours"`
	Theirs float64 `json:"theirs"`
	Unit   string  `json:"unit"`
	Ratio  float64 `json:"ratio"`

	OursRounds   []float64 `json:"-"`
	TheirsRounds []float64 `json:"-"`
}

// MarshalJSON writes null for what a case without a peer does not have.
func (l line) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"case": l.Case, "peer": l.Peer, "ours": number(l.Ours), "theirs": number(l.Theirs), "unit": l.Unit, "ratio": number(l.Ratio),
	})
}

func number(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

// output prints the lines and keeps them, with the rounds, for the raw data.
type output struct {
	w     io.Writer
	json  bool
	lines []line
	raw   []map[string]any
}

func (o *output) line(l line) {
	l.Ratio = l.Ours / l.Theirs
	o.lines = append(o.lines, l)
	o.raw = append(o.raw, map[string]any{
		"case": l.Case, "peer": l.Peer, "unit": l.Unit, "ours": numbers(l.OursRounds), "theirs": numbers(l.TheirsRounds),
	})
	if o.json {
		text, _ := json.Marshal(l)
		fmt.Fprintln(o.w, string(text))
		return
	}
	want, ok := target(l)
	verdict := ""
	if want != "" {
		verdict = "ok   " + want
		if !ok {
			verdict = "MISS " + want
		}
	}
	fmt.Fprintf(o.w, "%-27s %-11s %10.4g %10.4g %-8s %7.2f  %s\n", l.Case, l.Peer, l.Ours, l.Theirs, l.Unit, l.Ratio, verdict)
}

func numbers(values []float64) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = number(v)
	}
	return out
}

// save writes the rounds of all figures to a file of dir, named by the time.
func (o *output) save(dir string, info []string, args []string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(map[string]any{
		"at": time.Now().UTC().Format(time.RFC3339), "machine": info, "flags": args, "figures": o.raw,
	}, "", " ")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, time.Now().UTC().Format("20060102-150405")+".json")
	return name, os.WriteFile(name, append(text, '\n'), 0o644)
}
