package job_test

import (
	"slices"
	"testing"

	"github.com/weirq/weir/pkg/job"
)

func TestTheStatesAreNineAndFourOfThemFinal(t *testing.T) {
	t.Parallel()
	want := []job.State{
		job.Scheduled, job.Available, job.Running, job.Blocked, job.Retrying, job.Completed, job.Discarded, job.Cancelled, job.Expired,
	}
	if !slices.Equal(job.States, want) {
		t.Errorf("got %v, want %v", job.States, want)
	}
	for i, s := range job.States {
		if final := i >= 5; s.Final() != final || !s.Valid() {
			t.Errorf("%s: got final %v, valid %v, want %v, true", s, s.Final(), s.Valid(), final)
		}
	}
	for _, s := range []job.State{"", "Running", "failed", "running "} {
		if s.Valid() || s.Final() {
			t.Errorf("%q: got valid %v, final %v, want neither", s, s.Valid(), s.Final())
		}
	}
}

func TestTransitionsNameKnownStatesOnce(t *testing.T) {
	t.Parallel()
	seen := make(map[job.Transition]bool)
	for _, tr := range job.Transitions {
		if tr.From != "" && !tr.From.Valid() || !tr.To.Valid() || tr.On == "" {
			t.Errorf("%v: want states that exist and an event", tr)
		}
		if seen[tr] {
			t.Errorf("%v: stands twice", tr)
		}
		seen[tr] = true
		if !job.Allowed(tr.From, tr.On, tr.To) {
			t.Errorf("%v: got not allowed, want what the table says", tr)
		}
	}
	events := []job.Event{
		job.Enqueue, job.ComeDue, job.Claim, job.Finish, job.Retry, job.SnoozeIt, job.Drop, job.Stop, job.Release, job.Recover,
		job.Expire, job.Revive, job.Block, job.PutOff, job.HandOver, job.Reserve,
	}
	for _, from := range append([]job.State{""}, job.States...) {
		for _, on := range events {
			for _, to := range append([]job.State{""}, job.States...) {
				if got := job.Allowed(from, on, to); got != seen[job.Transition{From: from, On: on, To: to}] {
					t.Errorf("%s on %s to %s: got allowed %v, want what the table says", from, on, to, got)
				}
			}
		}
	}
	for _, on := range events {
		if !slices.ContainsFunc(job.Transitions, func(tr job.Transition) bool { return tr.On == on }) {
			t.Errorf("%s: changes nothing", on)
		}
	}
}

func TestEveryStateIsReachedFromAnEnqueue(t *testing.T) {
	t.Parallel()
	reached := reachable(nil, "")
	for _, s := range job.States {
		if !reached[s] {
			t.Errorf("%s is never reached", s)
		}
	}
}

func TestEveryLiveStateCanEndInEveryFinalOne(t *testing.T) {
	t.Parallel()
	for _, from := range job.States {
		if from.Final() {
			continue
		}
		reached := reachable(nil, from)
		for _, to := range job.States {
			if to.Final() && !reached[to] {
				t.Errorf("%s never ends as %s, want a way", from, to)
			}
		}
	}
}

// reachable adds the states that from can come to.
func reachable(into map[job.State]bool, from job.State) map[job.State]bool {
	if into == nil {
		into = make(map[job.State]bool)
	}
	for _, tr := range job.Transitions {
		if tr.From == from && !into[tr.To] {
			into[tr.To] = true
			reachable(into, tr.To)
		}
	}
	return into
}

func TestOnlyAHandRevivesAFinalJobAndNothingACompletedOne(t *testing.T) {
	t.Parallel()
	for _, tr := range job.Transitions {
		if tr.From == job.Completed {
			t.Errorf("%v: want no way out of completed", tr)
		}
		if tr.From.Final() && (tr.On != job.Revive || tr.To.Final()) {
			t.Errorf("%v: want no way out of a final state but to be revived", tr)
		}
		if tr.On == job.Revive && !tr.From.Final() {
			t.Errorf("%v: want final jobs alone revived", tr)
		}
		if tr.From == "" != (tr.On == job.Enqueue) {
			t.Errorf("%v: want an enqueue to make jobs and nothing else", tr)
		}
		if tr.To == job.Running && tr.On != job.Claim && tr.On != job.HandOver {
			t.Errorf("%v: want a claim or a hand-over alone to start a job", tr)
		}
	}
}

func TestNumbersOfTheDeadAreTheirStates(t *testing.T) {
	t.Parallel()
	for n, want := range map[int16]job.State{
		job.DeadDiscarded: job.Discarded, job.DeadCancelled: job.Cancelled, job.DeadExpired: job.Expired, 0: "", 4: "", -1: "",
	} {
		if got := job.DeadState(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	if job.LiveAvailable != 0 || job.LiveRunning != 1 || job.LiveBlocked != 2 {
		t.Error("the numbers of live states changed: they are stored")
	}
}
