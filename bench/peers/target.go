package main

import (
	"fmt"
	"strings"
)

// targets are what the project wants of the ratios ours/theirs, by the beginning of the case's name and the peer. The first
// that fits counts.
var targets = []struct {
	prefix, peer string
	least        float64 // 0: none
	most         float64 // 0: none
}{
	{"process_noop_100_default", "river", 30, 0},
	{"process_noop", "river-tuned", 4, 0},
	{"process_noop", "asynq", 4, 0},
	{"enqueue_bulk", "river", 2.5, 0},
	{"enqueue_single_16", "river", 6, 0},
	{"enqueue_single_64", "river", 8, 0},
	{"enqueue_single_64", "asynq", 1, 0},
	{"pickup_100_p50", "river-tuned", 0, 0.4},
	{"pickup_100_p99", "river-tuned", 0, 0.6},
	{"cost_wal", "river", 0, 0.4},
}

// target returns what is wanted of a line and whether it is met; "" if nothing is.
func target(l line) (want string, ok bool) {
	for _, t := range targets {
		if !strings.HasPrefix(l.Case, t.prefix) || t.peer != l.Peer {
			continue
		}
		if t.least > 0 {
			return fmt.Sprintf(">= %g", t.least), l.Ratio >= t.least
		}
		return fmt.Sprintf("<= %g", t.most), l.Ratio <= t.most
	}
	return "", true
}
