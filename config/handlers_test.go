package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/config"
)

func TestHandlersAreReadStrictly(t *testing.T) {
	t.Parallel()
	const list = `[{kind: pdf.render, command: [python3, -u, render.py], dir: jobs, env: [A=b, TZ], timeout: 2m, retry_after: 5s, slots: 2, max_rss: 256MiB},
    {kind: crm.sync, webhook: "https://h/x", token_file: /run/t}]`
	want := []config.Handler{
		{Kind: "pdf.render", Command: []string{"python3", "-u", "render.py"}, Dir: "jobs", Env: []string{"A=b", "TZ"}, Timeout: 2 * time.Minute,
			RetryAfter: 5 * time.Second, Slots: 2, MaxRSS: 256 << 20},
		{Kind: "crm.sync", Webhook: "https://h/x", TokenFile: "/run/t"},
	}
	for _, l := range []*config.Loaded{mustRead(t, "worker:\n  handlers: "+list), mustRead(t, "", "WEIR_WORKER_HANDLERS="+list)} {
		if got := l.Config.Worker.Handlers; !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	for text, part := range map[string]string{
		"x":                                   "a list",
		"[x]":                                 "must be {kind",
		"[{command: [a]}]":                    "kind: is missing",
		"[{kind: a}]":                         "neither command nor webhook",
		"[{kind: a b, command: [a]}]":         "is not a kind",
		"[{kind: a, command: []}]":            "has 0 items",
		"[{kind: a, command: ['']}]":          "begins with an empty text",
		"[{kind: a, command: a}]":             "a list of texts",
		"[{kind: a, command: [sleep, 5]}]":    "item 2 is a number",
		"[{kind: a, comand: [a]}]":            "did you mean command",
		"[{kind: a, command: [a], shell: 1}]": "unknown key",
		"[{kind: a, command: [a], webhook: 'http://h'}]":     "or both",
		"[{kind: a, webhook: 'file:///etc/passwd'}]":         "not an http",
		"[{kind: a, webhook: 'http://h', env: [A]}]":         "for a command",
		"[{kind: a, command: [a], token_file: /x}]":          "for a webhook",
		"[{kind: a, command: [a], timeout: 5}]":              "unit",
		"[{kind: a, command: [a], max_rss: 5}]":              "must be text",
		"[{kind: a, command: [a], max_rss: 5MB}]":            "KiB, MiB, GiB",
		"[{kind: a, command: [a], max_rss: 1MiB}]":           "16MiB to 1024GiB",
		"[{kind: a, command: [a], env: [WEIR_X=1]}]":         "Weir's own",
		"[{kind: a, command: [a]}, {kind: a, command: [b]}]": "is given twice",
	} {
		if _, err := read("worker:\n  handlers: " + text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want %q", text, err, part)
		}
		if _, err := read("", "WEIR_WORKER_HANDLERS="+text); err == nil {
			t.Errorf("%s: taken from a variable", text)
		}
	}
}

func TestModesAndChildrenAreReadStrictly(t *testing.T) {
	t.Parallel()
	l := mustRead(t, "worker: {modes: [inline, spawned], queues: [{name: a, slots: 1, modes: [forked]}], children: {max_rss: 1GiB, env: [STRIPE_*]}}")
	w := l.Config.Worker
	if !reflect.DeepEqual(w.Modes, []string{"inline", "spawned"}) || !reflect.DeepEqual(w.Queues[0].Modes, []string{"forked"}) ||
		w.Children.MaxRSS != 1<<30 || !reflect.DeepEqual(w.Children.Env, []string{"STRIPE_*"}) {
		t.Errorf("got %+v", w)
	}
	for text, part := range map[string]string{
		"{modes: [inlined]}":                                 "did you mean inline",
		"{modes: inline}":                                    "a list",
		"{modes: [forked, forked]}":                          "given twice",
		"{children: {count: 0}}":                             "1 to 1000",
		"{children: {max_rss: 512}}":                         "must be text",
		"{children: {max_rss: 0MiB}}":                        "is not a size",
		"{children: {env: [WEIR_X]}}":                        "Weir's own",
		"{children: {env: ['A B']}}":                         "not the name of a variable",
		"{queues: [{name: a, slots: 1, modes: [threaded]}]}": "not one of inline, forked, spawned",
	} {
		if _, err := read("worker: " + text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want %q", text, err, part)
		}
	}
}
