package model

import (
	"fmt"
	"hash/maphash"
	"slices"
)

// kind says what may be built on a step.
type kind uint8

const (
	// usual is what every process that lives does sooner or later.
	usual kind = iota
	// fault may happen or not: a crash, a lost reply, an answer of Redis that is not true. Nothing may need it.
	fault
	// rescue is a slow second line: a poll, a duty of the sweeper. Its effects are explored, but nothing may need it.
	rescue
)

// step names what led from one state to the next: a function or statement of the code, and up to two numbers of the
// workers, jobs or keys that it is about. -1 is none.
type step struct {
	verb string
	a, b int
}

func (s step) String() string {
	switch {
	case s.a < 0:
		return s.verb
	case s.b < 0:
		return fmt.Sprintf("%s %d", s.verb, s.a)
	}
	return fmt.Sprintf("%s %d %d", s.verb, s.a, s.b)
}

// system is what explore walks through. S is a plain value without pointers: two equal ones are the same state.
type system[S comparable] interface {
	start() S
	// next gives every step that is possible in s to emit, always in the same order.
	next(s S, emit func(kind, step, S))
	// wrong names the promise that s breaks, or is "".
	wrong(s S) string
	// done tells that all work has ended. From every state one of these must be in reach by usual steps alone.
	done(s S) bool
}

// outcome is what explore found.
type outcome struct {
	states int
	wrong  string   // the broken promise, "" if all hold
	trace  []string // the shortest way there
}

func (o outcome) String() string {
	if o.wrong == "" {
		return fmt.Sprintf("%d states, no violation", o.states)
	}
	out := fmt.Sprintf("%d states: %s", o.states, o.wrong)
	for i, line := range o.trace {
		out += fmt.Sprintf("\n%4d  %s", i+1, line)
	}
	return out
}

// stuck is the promise of liveness.
const stuck = "stuck: no usual steps lead to the end of all work"

// origin is how a state was met first.
type origin struct {
	parent int32 // -1: the start
	nth    int32 // of the parent's steps
}

// explorer walks breadth first. It keeps 64 bits of each state and not the state itself: a way back is walked again from
// the start. Two states with the same hash would be taken for one; with a million states that is less likely than one
// in ten million.
type explorer[S comparable] struct {
	sys    system[S]
	seed   maphash.Seed
	seen   map[uint64]int32
	from   []origin
	isDone []bool
	queue  []S // states of the level that is being walked
	next   []S // those of the one behind it
	// Usual steps, in step: from[i] to to[i].
	edgeFrom, edgeTo []int32
}

// explore walks through all reachable states and returns the first that breaks a promise. It gives up with an error
// beyond most states: a model that grew out of its bounds is to be made smaller, not to be believed.
func explore[S comparable](sys system[S], most int) (outcome, error) {
	e := &explorer[S]{sys: sys, seed: maphash.MakeSeed(), seen: make(map[uint64]int32)}
	e.add(sys.start(), origin{parent: -1})
	e.queue, e.next = e.next, nil
	if wrong := sys.wrong(sys.start()); wrong != "" {
		return outcome{states: 1, wrong: wrong}, nil
	}
	for at := int32(0); len(e.queue) > 0; {
		for _, s := range e.queue {
			if bad := e.expand(s, at); bad.wrong != "" {
				return bad, nil
			}
			at++
		}
		if len(e.from) > most {
			return outcome{states: len(e.from)}, fmt.Errorf("more than %d states", most)
		}
		e.queue, e.next = e.next, e.queue[:0]
	}
	return e.live(), nil
}

// add numbers a state; isNew is false if it was met before.
func (e *explorer[S]) add(s S, o origin) (at int32, isNew bool) {
	h := maphash.Comparable(e.seed, s)
	if at, ok := e.seen[h]; ok {
		return at, false
	}
	at = int32(len(e.from))
	e.seen[h] = at
	e.from = append(e.from, o)
	e.isDone = append(e.isDone, e.sys.done(s))
	e.next = append(e.next, s)
	return at, true
}

// expand takes all steps of the state with number at. The outcome is empty as long as all is well.
func (e *explorer[S]) expand(s S, at int32) (bad outcome) {
	nth := int32(-1)
	e.sys.next(s, func(k kind, _ step, t S) {
		nth++
		to, isNew := e.add(t, origin{at, nth})
		if k == usual && to != at {
			e.edgeFrom, e.edgeTo = append(e.edgeFrom, at), append(e.edgeTo, to)
		}
		if !isNew || bad.wrong != "" {
			return
		}
		if wrong := e.sys.wrong(t); wrong != "" {
			bad = outcome{states: len(e.from), wrong: wrong, trace: e.trace(to)}
		}
	})
	return bad
}

// live looks for a state from which no end is in reach: backwards from all ends.
func (e *explorer[S]) live() outcome {
	n := len(e.from)
	start := make([]int32, n+1) // where the steps that lead to a state begin in into
	for _, to := range e.edgeTo {
		start[to+1]++
	}
	for i := range n {
		start[i+1] += start[i]
	}
	into, fill := make([]int32, len(e.edgeTo)), slices.Clone(start)
	for i, to := range e.edgeTo {
		into[fill[to]] = e.edgeFrom[i]
		fill[to]++
	}
	ends := slices.Clone(e.isDone)
	var todo []int32
	for i, end := range ends {
		if end {
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range into[start[at]:start[at+1]] {
			if !ends[p] {
				ends[p] = true
				todo = append(todo, p)
			}
		}
	}
	if first := slices.Index(ends, false); first >= 0 {
		return outcome{states: n, wrong: stuck, trace: e.trace(int32(first))}
	}
	return outcome{states: n}
}

// trace walks from the start to a state once more and notes the steps.
func (e *explorer[S]) trace(to int32) (lines []string) {
	var way []int32
	for at := to; e.from[at].parent >= 0; at = e.from[at].parent {
		way = append(way, e.from[at].nth)
	}
	s := e.sys.start()
	for _, want := range slices.Backward(way) {
		nth := int32(-1)
		var then S
		e.sys.next(s, func(k kind, l step, t S) {
			if nth++; nth == want {
				then = t
				lines = append(lines, l.String()+[...]string{"", " (fault)", " (rescue)"}[k])
			}
		})
		s = then
	}
	return lines
}
