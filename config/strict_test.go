package config_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weirq/weir/config"
)

// refused are files that must not be taken, and what the error names.
var refused = map[string]struct {
	text string
	want []string
}{
	"a misspelt key":                {"worker:\n  concurency: 50", []string{"weir.yaml:2", "worker.concurency", "unknown key", "worker.concurrency"}},
	"a misspelt section":            {"tmings: {lease: 5s}", []string{"weir.yaml:1", "tmings", "timing"}},
	"a key at the wrong level":      {"lease: 5s", []string{"weir.yaml:1", "lease", "timing.lease"}},
	"a key in the wrong section":    {"worker: {max_conns: 5}", []string{"worker.max_conns", "postgres.max_conns"}},
	"a key that is like none":       {"retires: 3", []string{"weir.yaml:1: retires: unknown key"}},
	"a dotted key":                  {"timing.lease: 5s", []string{"timing.lease", "nested"}},
	"a key in capitals":             {"timing:\n  Lease: 5s", []string{"weir.yaml:2", "timing.Lease", "timing.lease"}},
	"a key of a later version":      {"sweeper: {admin: {listen: ':8090'}}", []string{"sweeper.admin", "unknown key"}},
	"a key twice":                   {"timing:\n  lease: 5s\n  poll: 5s\n  lease: 6s", []string{"weir.yaml:4", "timing.lease", "twice", "weir.yaml:2"}},
	"a section twice":               {"timing:\n  lease: 5s\nlog: {level: info}\ntiming:\n  poll: 5s", []string{"weir.yaml:4", "timing", "twice", "weir.yaml:1"}},
	"two documents":                 {"timing: {lease: 5s}\n---\nlog: {level: info}", []string{"weir.yaml:2", "document"}},
	"a second document that is bad": {"timing: {lease: 5s}\n---\n{", []string{"weir.yaml", "YAML"}},
	"a tab":                         {"timing:\n\tlease: 5s", []string{"weir.yaml:2", "tab"}},
	"a tab before a comment":        {"timing:\n\t# a comment\n  lease: 5s", []string{"weir.yaml:2", "tab"}},
	"a tab after spaces":            {"timing:\n  lease: 5s\n  \tpoll: 5s", []string{"weir.yaml:3", "tab"}},
	"wrong indentation":             {"timing:\n  lease: 5s\n poll: 5s", []string{"weir.yaml:", "YAML"}},
	"no space after a colon":        {"timing:\n  lease:5s", []string{"weir.yaml:2", "timing", "space after the colon"}},
	"a list for a section":          {"timing: [lease]", []string{"timing", "a list", "section"}},
	"a list at the top":             {"- timing", []string{"weir.yaml:1", "a list"}},
	"text at the top":               {"hello", []string{"weir.yaml:1", "text"}},
	"an anchor":                     {"timing: &t {lease: 5s}", []string{"weir.yaml:1", "timing", "anchor"}},
	"an alias":                      {"timing: {lease: &a 5s, poll: *a}", []string{"timing.poll", "alias"}},
	"a merge key":                   {"timing: {lease: 5s}\nlog:\n  <<: {level: info}", []string{"weir.yaml:3", "log", "merge"}},
	"an alias without anchor":       {"log: {level: info}\nredis:\n  url: *secret", []string{"weir.yaml:3", "asterisk"}},
	"a tag":                         {"namespace: !env NAME", []string{"namespace", "tag"}},
	"a key that is a list":          {"[a, b]: 5", []string{"weir.yaml:1", "plain word"}},
	"null for a value":              {"log: {level: null}", []string{"log.level", "no value"}},
	"nothing for a value":           {"log:\n  level:", []string{"weir.yaml:2", "log.level", "no value"}},
	"empty text":                    {"environment: ''", []string{"environment", "empty"}},
	"a number for text":             {"namespace: 5", []string{"namespace", `"5"`, "quotes"}},
	"a word outside the choice":     {"log: {level: inof}", []string{"log.level", `"inof"`, "info"}},
	"yes for true":                  {"worker: {abandon: yes}", []string{"worker.abandon", "true or false"}},
	"quoted true":                   {"worker: {abandon: 'true'}", []string{"worker.abandon", "true or false"}},
	"a quoted number":               {"worker: {concurrency: '5'}", []string{"worker.concurrency", `"5"`, "whole number"}},
	"a fraction":                    {"worker: {concurrency: 2.5}", []string{"worker.concurrency", "2.5", "whole number"}},
	"an octal number":               {"worker: {concurrency: 010}", []string{"worker.concurrency", "decimal"}},
	"a huge number":                 {"worker: {concurrency: 99999999999999999999}", []string{"worker.concurrency"}},
	"no concurrency":                {"worker: {concurrency: 0}", []string{"worker.concurrency", "1 to 100000"}},
	"negative concurrency":          {"worker: {concurrency: -1}", []string{"worker.concurrency", "1 to 100000"}},
	"absurd concurrency":            {"worker: {concurrency: 1000000}", []string{"worker.concurrency", "1 to 100000"}},
	"an empty pool":                 {"postgres: {max_conns: 0}", []string{"postgres.max_conns", "2 to 1000"}},
	"a namespace in capitals":       {"namespace: Weir", []string{"namespace", `"Weir"`}},
	"a namespace of Postgres":       {"namespace: pg_weir", []string{"namespace", "Postgres"}},
	"a long namespace":              {"namespace: " + strings.Repeat("a", 32), []string{"namespace", "31"}},
	"an environment with spaces":    {"environment: my prod", []string{"environment"}},
	"a port alone":                  {"worker: {http: {listen: '9465'}}", []string{"worker.http.listen", "host:port"}},
	"a port by name":                {"worker: {http: {listen: ':http'}}", []string{"worker.http.listen", "port"}},
	"a port too high":               {"worker: {http: {listen: ':65536'}}", []string{"worker.http.listen", "port"}},
	"an unknown duty":               {"sweeper: {duties_off: [rotat]}", []string{"sweeper.duties_off", `"rotat"`, "rotate"}},
	"a duty twice":                  {"sweeper: {duties_off: [rotate, rotate]}", []string{"sweeper.duties_off", "twice"}},
	"a word for a list":             {"sweeper: {duties_off: rotate}", []string{"sweeper.duties_off", "list"}},
	"a list in a list":              {"sweeper: {duties_off: [[rotate]]}", []string{"sweeper.duties_off[0]", "word"}},
	"queues as a map":               {"worker:\n  queues: {mail: {slots: 5}}", []string{"weir.yaml:2", "worker.queues", "list"}},
	"queues as words":               {"worker: {queues: [mail]}", []string{"worker.queues[0]", "{name"}},
	"no queues":                     {"worker: {queues: []}", []string{"worker.queues", "empty"}},
	"a queue without slots":         {"worker: {queues: [{name: a}]}", []string{"worker.queues[0].slots", "missing"}},
	"a queue without a name":        {"worker: {queues: [{slots: 1}]}", []string{"worker.queues[0].name", "missing"}},
	"a queue of no slots":           {"worker: {queues: [{name: a, slots: 0}]}", []string{"worker.queues[0].slots", "1 to 100000"}},
	"a queue of no weight":          {"worker: {queues: [{name: a, slots: 1, weight: 0}]}", []string{"worker.queues[0].weight", "1 to 100"}},
	"a misspelt queue key":          {"worker:\n  queues:\n    - {name: a, slot: 1}", []string{"weir.yaml:3", "worker.queues[0].slot", "slots"}},
	"a queue key twice":             {"worker: {queues: [{name: a, slots: 1, slots: 2}]}", []string{"worker.queues[0].slots", "twice"}},
	"two queues of one name":        {"worker:\n  queues:\n    - {name: a, slots: 1}\n    - {name: a, slots: 2}", []string{"weir.yaml:4", "worker.queues[1]", `"a"`, "weir.yaml:3"}},
	"a number for a queue's name":   {"worker: {queues: [{name: 123, slots: 1}]}", []string{"worker.queues[0].name", "quotes"}},
	"null for a queue's name":       {"worker: {queues: [{name: null, slots: 1}]}", []string{"worker.queues[0].name", "null"}},
	"an empty queue name":           {"worker: {queues: [{name: '', slots: 1}]}", []string{"worker.queues[0].name", "empty"}},
	"a control character in a name": {"worker: {queues: [{name: \"a\\x1bb\", slots: 1}]}", []string{"worker.queues[0].name", "control"}},
	"a NUL in a name":               {"worker: {queues: [{name: \"a\\0b\", slots: 1}]}", []string{"worker.queues[0].name", "NUL"}},
	"a long queue name":             {"worker: {queues: [{name: " + strings.Repeat("é", 65) + ", slots: 1}]}", []string{"worker.queues[0].name", "130 bytes", "128"}},
	"more slots than anyone has":    {"worker: {queues: [{name: a, slots: 60000}, {name: b, slots: 60000}]}", []string{"worker.queues", "120000"}},
	"two faults: both are named":    {"log: {level: x}\nnamespace: 5", []string{"weir.yaml:1: log.level", "weir.yaml:2: namespace"}},
}

func TestWhatTheFileMayNotSay(t *testing.T) {
	t.Parallel()
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(c.text)
			wantError(t, err, c.want...)
		})
	}
}

func TestWhatTheFileMaySay(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":                     "",
		"comments only":               "# nothing\n\n  # here\n",
		"a marker":                    "---\nlog: {level: info}\n",
		"a section of comments":       "log:\n  # level: debug\ntiming: {lease: 20s}",
		"a byte order mark":           "\ufefflog: {level: info}\n",
		"carriage returns":            "log:\r\n  level: info\r\n",
		"tabs in comments and values": "log: # a\tb\n  level:\tinfo\n",
	} {
		if _, err := read(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesOfQueuesAreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	names := []string{"Customer-A", "customer-a", "a.b", "a_b", "yes", "É", "队列", "with space", "a=b,c*2", `q"uote`, strings.Repeat("x", 128)}
	var doc strings.Builder
	doc.WriteString("worker:\n  queues:\n")
	for _, n := range names {
		doc.WriteString("    - name: '" + n + "'\n      slots: 3\n")
	}
	l := mustRead(t, doc.String())
	again := mustRead(t, "", "WEIR_WORKER_QUEUES="+value(t, l, "worker.queues").Value)
	for _, c := range []config.Config{l.Config, again.Config} {
		if len(c.Worker.Queues) != len(names) {
			t.Fatalf("got %d queues, want %d", len(c.Worker.Queues), len(names))
		}
		for i, q := range c.Worker.Queues {
			if want := (config.Queue{Name: names[i], Slots: 3, Weight: 1}); !reflect.DeepEqual(q, want) {
				t.Errorf("got %+v, want %+v", q, want)
			}
		}
	}
}

func TestAMissingFileIsNamedWithWhoNamedIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "absent.yaml")
	_, err := config.Load(path)
	wantError(t, err, path, "--config")
	_, err = config.Read(config.Sources{Environ: []string{"WEIR_CONFIG=" + path}})
	wantError(t, err, path, "WEIR_CONFIG")
	_, err = config.Load(t.TempDir())
	wantError(t, err, "--config", "directory")
	_, err = config.Load(writeFile(t, strings.Repeat("#", 1<<20+1)))
	wantError(t, err, "longer")
}

func TestTheFileNamedByTheCallerWinsOverTheVariable(t *testing.T) {
	t.Parallel()
	a, b := writeFile(t, "namespace: weir_a"), writeFile(t, "namespace: weir_b")
	for _, c := range []struct{ path, want string }{{"", "weir_a"}, {b, "weir_b"}} {
		l, err := config.Read(config.Sources{Path: c.path, Environ: []string{"WEIR_CONFIG=" + a}})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Config.Namespace; got != c.want {
			t.Errorf("path %q: got %q, want %q", c.path, got, c.want)
		}
	}
}
