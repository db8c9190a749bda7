package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weirq/weir/pkg/job"
)

// enqueueJSON enqueues with --json and returns what was printed.
func (c *cli) enqueueJSON(args ...string) (e enqueuedJSON) {
	c.t.Helper()
	out := c.want(exitDone, append([]string{"enqueue", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		c.t.Fatalf("weir enqueue %v: %v in %q", args, err, out)
	}
	return e
}

func TestAUniqueJobFromTheCommandLineIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")

	first := c.enqueueJSON("report", `{"n": 1}`, "--unique", "daily")
	if first.Duplicate || first.ID.IsZero() {
		t.Fatalf("the first is %+v", first)
	}
	if again := c.enqueueJSON("report", `{"n": 2}`, "--unique", "daily"); !again.Duplicate || again.ID != first.ID {
		t.Errorf("the second is %+v, want a duplicate of %s", again, first.ID)
	}
	if out := c.want(exitDone, "enqueue", "report", "--unique", "daily"); out != first.ID.String()+"  was there before: nothing changed\n" {
		t.Errorf("got %q", out)
	}
	if other := c.enqueueJSON("report", "--unique", "weekly"); other.Duplicate {
		t.Errorf("another key gave %+v", other)
	}
	if other := c.enqueueJSON("summary", "--unique", "daily"); other.Duplicate {
		t.Errorf("another kind gave %+v", other)
	}

	args := c.enqueueJSON("index", `{"a": 1, "b": 2}`, "--unique-args")
	if same := c.enqueueJSON("index", `{"b": 2.0, "a": 1}`, "--unique-args"); !same.Duplicate || same.ID != args.ID {
		t.Errorf("the same payload gave %+v, want a duplicate of %s", same, args.ID)
	}
	if other := c.enqueueJSON("index", `{"a": 1, "b": 3}`, "--unique-args"); other.Duplicate {
		t.Errorf("another payload gave %+v", other)
	}
}

func TestAUniqueKeyFromTheCommandLineOutlivesItsJobForAWindow(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	for _, test := range []struct {
		key   string
		flags []string
		want  bool
	}{{"with", []string{"--unique-for", "1h"}, true}, {"without", nil, false}} {
		args := append([]string{"report", "--unique", test.key}, test.flags...)
		first := c.enqueueJSON(args...)
		c.want(exitDone, "jobs", "cancel", first.ID.String())
		if again := c.enqueueJSON(args...); again.Duplicate != test.want {
			t.Errorf("%s a window, after the end of the first: %+v", test.key, again)
		}
	}
}

func TestAUniqueJobFromTheCommandLineReplacesOrRefuses(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")

	replace := []string{"--unique", "shop", "--unique-while", "waiting", "--on-conflict", "replace"}
	first := c.enqueueJSON(append([]string{"index", `{"n": 1}`}, replace...)...)
	second := c.enqueueJSON(append([]string{"index", `{"n": 2}`}, replace...)...)
	if second.Duplicate || second.Replaced != first.ID {
		t.Errorf("the second is %+v, want one that replaced %s", second, first.ID)
	}
	if out := c.want(exitDone, "jobs", "show", first.ID.String()); !strings.Contains(out, "cancelled") || !strings.Contains(out, "superseded by "+second.ID.String()) {
		t.Errorf("the first is shown as\n%s", out)
	}
	third := c.want(exitDone, append([]string{"enqueue", "index", `{"n": 3}`}, replace...)...)
	if !strings.HasSuffix(third, "  in the place of "+second.ID.String()+"\n") {
		t.Errorf("got %q", third)
	}

	kept := c.enqueueJSON("report", `{"n": 1}`, "--unique", "daily")
	for _, test := range []struct{ payload, flag, want string }{
		{`{"n": 1}`, "--on-conflict=fail", kept.ID.String()},
		{`{"n": 2}`, "--same-args", kept.ID.String()},
	} {
		r := c.do("enqueue", "report", test.payload, "--unique", "daily", test.flag)
		if r.code != exitFailed || r.out != "" || !strings.Contains(r.err, test.want) {
			t.Errorf("%s: %d, %q, %q", test.flag, r.code, r.out, r.err)
		}
	}
	if same := c.enqueueJSON("report", `{"n": 1}`, "--unique", "daily", "--same-args"); !same.Duplicate || same.ID != kept.ID {
		t.Errorf("the same payload with --same-args: %+v", same)
	}
}

// What is wrong is said before anything is stored, with the name of what is wrong and what is wanted.
func TestUniqueFlagsThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	for _, test := range []struct{ flags, want string }{
		{"--unique a --unique-while soon", "weir: --unique-while is \"soon\", want live or waiting\n-> weir enqueue --help\n"},
		{"--unique a --on-conflict merge", "weir: --on-conflict is \"merge\", want keep, replace or fail\n-> weir enqueue --help\n"},
		{"--unique a --unique-for 5", `invalid argument "5" for "--unique-for" flag`},
		{"--unique a --unique-args", "weir: --unique and --unique-args are two keys, want one of them\n-> weir enqueue --help\n"},
		{"--unique-for 1h", "weir: without a key there is nothing to compare, want --unique or --unique-args too\n-> weir enqueue --help\n"},
		{"--on-conflict fail", "weir: without a key there is nothing to compare, want --unique or --unique-args too\n-> weir enqueue --help\n"},
		{"--unique-while waiting", "weir: without a key there is nothing to compare, want --unique or --unique-args too\n-> weir enqueue --help\n"},
		{"--same-args", "weir: without a key there is nothing to compare, want --unique or --unique-args too\n-> weir enqueue --help\n"},
		{"--unique a --same-args --on-conflict replace", "Unique is SameArgs together with Replace, want one of the two"},
		{"--unique a --unique-for 100000h", "Unique is For 100000h0m0s, want 1ms to 87600h"},
		{"--unique=", "weir: --unique is empty, want a key\n-> weir enqueue --help\n"},
		{"--unique weir.a", "Unique is"},
		{"--on-discard a!b", "OnDiscard is"},
		{"--mode threaded", `Mode is "threaded", want inline, forked or spawned`},
	} {
		r := c.do(append([]string{"enqueue", "report"}, strings.Fields(test.flags)...)...)
		if r.code != exitUsage || !strings.Contains(r.err, test.want) {
			t.Errorf("%s: exit code %d, %q, want %d, %q", test.flags, r.code, r.err, exitUsage, test.want)
		}
	}
	if out := c.want(exitDone, "jobs", "list"); out != "no jobs\n" {
		t.Errorf("there are jobs:\n%s", out)
	}
}

func TestJobsShowTellsTheModeThatAJobAsksFor(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	q := c.client()
	for _, mode := range []job.Mode{job.Inline, job.Forked, job.Spawned} {
		e, err := q.Enqueue(t.Context(), job.Raw{Name: "report"}, job.Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range []string{"available", "cancelled"} {
			if state == "cancelled" {
				c.want(exitDone, "jobs", "cancel", e.ID.String())
			}
			var row job.Row
			text := c.want(exitDone, "jobs", "show", e.ID.String(), "--json")
			if err := json.Unmarshal([]byte(text), &row); err != nil || row.Mode != mode || string(row.State) != state {
				t.Errorf("%s, %s: %v, %s", mode, state, err, text)
			}
			want := fmt.Sprintf("mode      %s or more isolated, as its producer asked\n", mode)
			out := c.want(exitDone, "jobs", "show", e.ID.String())
			if strings.Contains(out, want) != (mode != job.Inline) || strings.Contains(out, "mode ") != (mode != job.Inline) {
				t.Errorf("%s, %s: shown as\n%s", mode, state, out)
			}
		}
		if out := c.want(exitDone, "jobs", "list", "--json"); mode != job.Inline && !strings.Contains(out, fmt.Sprintf(`"mode":%q`, mode)) {
			t.Errorf("jobs list does not say %s: %s", mode, out)
		}
	}
}
