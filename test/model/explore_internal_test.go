package model

import (
	"slices"
	"strings"
	"testing"
)

// counter is a system of one number: steps lead from a number to others.
type counter struct {
	steps map[int][]int
	kind  kind
	bad   int // from here on a promise is broken
	end   int
}

func (c counter) start() int { return 0 }

func (c counter) next(s int, emit func(kind, step, int)) {
	for _, to := range c.steps[s] {
		emit(c.kind, step{"to", to, -1}, to)
	}
}

func (c counter) wrong(s int) string {
	if c.bad > 0 && s >= c.bad {
		return "too many"
	}
	return ""
}

func (c counter) done(s int) bool { return s == c.end }

func TestExploreFindsTheShortestWayToAViolation(t *testing.T) {
	t.Parallel()
	got, err := explore(counter{steps: map[int][]int{0: {1, 2}, 1: {3}, 2: {4}, 3: {4}, 4: {5}}, bad: 5}, 100)
	if err != nil || got.wrong != "too many" || !slices.Equal(got.trace, []string{"to 2", "to 4", "to 5"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestExploreTellsWhereNoEndIsInReach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		sys   counter
		wrong string
		trace string
	}{
		{"a state without steps", counter{steps: map[int][]int{0: {1, 2}, 1: {3}}, end: 3}, stuck, "to 2"},
		{"a circle", counter{steps: map[int][]int{0: {1, 2}, 1: {3}, 2: {4}, 4: {2}}, end: 3}, stuck, "to 2"},
		{"a circle with a way out", counter{steps: map[int][]int{0: {1, 2}, 1: {3}, 2: {4}, 4: {2, 1}}, end: 3}, "", ""},
		{"an end that only a fault leads to", counter{steps: map[int][]int{0: {1}}, end: 1, kind: fault}, stuck, ""},
		{"an end that only a rescue leads to", counter{steps: map[int][]int{0: {1}}, end: 1, kind: rescue}, stuck, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := explore(c.sys, 100)
			if err != nil || got.wrong != c.wrong || strings.Join(got.trace, ", ") != c.trace {
				t.Errorf("got %v, %v, want %q by %q", got, err, c.wrong, c.trace)
			}
		})
	}
}

func TestExploreGivesUpBeyondItsBound(t *testing.T) {
	t.Parallel()
	got, err := explore(counter{steps: map[int][]int{0: {1}, 1: {2}, 2: {3}, 3: {4}}, end: 4}, 3)
	if err == nil || got.wrong != "" {
		t.Errorf("got %v, %v, want an error", got, err)
	}
}
