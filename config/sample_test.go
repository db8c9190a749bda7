package config_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weirq/weir/config"
)

func sampleFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheSmallSampleLoads(t *testing.T) {
	t.Parallel()
	l, err := config.Read(config.Sources{Path: "weir.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Config.Worker.Concurrency, 60; got != want {
		t.Errorf("got concurrency %d, want %d", got, want)
	}
	if err := l.Require("postgres.url", "redis.url"); err != nil {
		t.Error(err)
	}
}

func TestTheFullSampleIsTheDefaultsAndNamesEveryKey(t *testing.T) {
	t.Parallel()
	text := sampleFile(t, "weir.full.yaml")
	full := mustRead(t, text)
	noConn := full.Config
	noConn.Postgres.URL, noConn.Redis.URL = "", ""
	if want := mustRead(t, "").Config; !reflect.DeepEqual(noConn, want) {
		t.Errorf("got  %+v\nwant %+v", noConn, want)
	}
	for _, k := range config.Keys() {
		inFile := strings.HasPrefix(full.Source(k.Key), "weir.yaml:")
		name := k.Key[strings.LastIndexByte(k.Key, '.')+1:]
		line := regexp.MustCompile(`(?m)^ *# ` + name + `: \S`)
		if !inFile && !line.MatchString(text) {
			t.Errorf("%s is neither set nor shown in a comment", k.Key)
		}
		if k.Default != "" && !inFile {
			t.Errorf("%s has a default, so the sample should set it", k.Key)
		}
		for _, word := range k.Words {
			if !strings.Contains(text, word) {
				t.Errorf("%s: the sample does not name the choice %s", k.Key, word)
			}
		}
		for _, bound := range []string{k.Min, k.Max} {
			if !strings.Contains(text, bound) {
				t.Errorf("%s: the sample does not name the limit %s", k.Key, bound)
			}
		}
	}
}

func TestEveryCommentedKeyOfTheFullSampleIsRight(t *testing.T) {
	t.Parallel()
	uncomment := regexp.MustCompile(`^( *)# ([a-z_]+: \S+)$`)
	lines := strings.Split(sampleFile(t, "weir.full.yaml"), "\n")
	tried := 0
	for i, line := range lines {
		if !uncomment.MatchString(line) {
			continue
		}
		tried++
		changed := append([]string{}, lines...)
		changed[i] = uncomment.ReplaceAllString(line, "$1$2")
		if _, err := read(strings.Join(changed, "\n")); err != nil && strings.Contains(err.Error(), "unknown key") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if tried != 6 {
		t.Errorf("tried %d lines, want 6", tried)
	}
}

func TestWhatIsPrintedIsReadAgainTheSame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", sampleFile(t, "weir.yaml"), sampleFile(t, "weir.full.yaml"),
		"timing: {lease: 20s, poll: 1500ms}\nworker: {grace: 1h1s, queues: [{name: 'a, b', slots: 2, weight: 3}]}\nsweeper: {duties_off: [wake, counts], http: {listen: off}}",
		`limits: [{key: "*", limit: 0}, {key: " a,=\n*", limit: 1}, {key: a, limit: 2}, {rate: a, limit: 2, per: 24h}, {rate: "a*", limit: 2, per: 1ms}]`,
		`sweeper: {schedules: [{name: "a, b", every: 90s, first_in: 1s, kind: k, payload: {x: [1, 2.50, "y", null, true], "é": "\u0000"}, misfire: all, misfire_cap: 7, enabled: false, tags: [t], timeout: none, expires_in: 1d, queue: q, priority: 1, max_attempts: 3}, {name: c, cron: "@daily", zone: Europe/Berlin, kind: k}]}`,
		"worker: {queues: [{name: a, slots: 1, modes: [forked, spawned]}], handlers: [{kind: a, command: [/bin/x, '', '-c'], dir: d, env: [A=b, C], max_rss: 16MiB}, " +
			"{kind: b, webhook: 'http://h', token_file: /t, retry_after: 90s, timeout: 1ms, slots: 3}]}",
		"queues: [{name: ' a+1/s', limit: 1}, {name: b, rate: {limit: 7, per: 90s}}, {name: c, limit: 3, rate: {limit: 1, per: 1h30m}}]"} {
		l := mustRead(t, text)
		again := mustRead(t, "", environOf(l)...)
		want := l.Config
		want.Postgres.URL, want.Redis.URL = "", ""
		if !reflect.DeepEqual(again.Config, want) {
			t.Errorf("got  %+v\nwant %+v", again.Config, want)
		}
	}
}

// environOf returns l's values as variables, without the secrets.
func environOf(l *config.Loaded) []string {
	env := map[string]config.Key{}
	for _, k := range config.Keys() {
		env[k.Key] = k
	}
	var lines []string
	for _, v := range l.Values() {
		if !env[v.Key].Secret {
			lines = append(lines, env[v.Key].Env+"="+v.Value)
		}
	}
	return lines
}
