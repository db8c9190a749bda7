package config_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirq/weir/config"
)

// FuzzRead holds Read to this: it never panics, and what it takes is inside all limits and reads back the same from its own Values.
func FuzzRead(f *testing.F) {
	full, err := os.ReadFile("weir.full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(full), "WEIR_WORKER_QUEUES=critical=50*4,mail=20")
	f.Add("timing: {lease: 20s, renew: 1s}", "WEIR_TIMING_POLL=1d12h")
	f.Add("worker:\n  queues:\n    - {name: A.b, slots: 5}\n", "WEIR_SWEEPER_DUTIES_OFF=expire,rotate")
	f.Add("a: &a [*a]\n<<: *a", `WEIR_WORKER_QUEUES="a,b"=1`)
	f.Add("redis: {url: *x}\n---\n", "WEIR_POSTGRES_URL=postgres://a:%zz@h/x\nWEIR_REDIS_URL=redis://:p@h")
	f.Add("\xff\xfe", "WEIR_\x00=1\nWEIR_LOG_LEVEL=inof")
	f.Fuzz(func(t *testing.T, text, environ string) {
		if strings.Contains(strings.ToLower(text+environ), "file") || strings.Contains(text+environ, "/dev") || strings.Contains(text+environ, "ssl") {
			return // would read files of the machine, some of which never end
		}
		lines := strings.Split(environ, "\n")
		if strings.Contains(environ, "WEIR_CONFIG") {
			lines = nil
		}
		l, err := read(text, lines...)
		if err != nil {
			if !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\x00\x1b\r") {
				t.Errorf("an error with bytes that no terminal should get: %q", err)
			}
			return
		}
		wantValid(t, l)
		again, err := read("", environOf(l)...)
		if err != nil {
			t.Fatalf("printed and read again: %v", err)
		}
		want := l.Config
		want.Postgres.URL, want.Postgres.LeaseURL, want.Redis.URL = "", "", ""
		if want.Redis.Mode == again.Config.Redis.Mode && !reflect.DeepEqual(again.Config, want) {
			t.Errorf("got  %+v\nwant %+v", again.Config, want)
		}
	})
}

// wantValid checks a configuration that was taken without looking at how it is checked.
func wantValid(t *testing.T, l *config.Loaded) {
	t.Helper()
	c := l.Config
	slots, names := 0, map[string]bool{}
	for _, q := range c.Worker.Queues {
		if q.Slots < 1 || q.Weight < 1 || q.Name == "" || len(q.Name) > 128 || !utf8.ValidString(q.Name) || strings.ContainsRune(q.Name, 0) || names[q.Name] {
			t.Errorf("took the queue %+v", q)
		}
		names[q.Name] = true
		slots += q.Slots
	}
	if len(c.Worker.Queues) == 0 || slots > 100_000 || c.Worker.Concurrency < len(c.Worker.Queues) {
		t.Errorf("took concurrency %d for %d queues", c.Worker.Concurrency, len(c.Worker.Queues))
	}
	for name, d := range map[string]time.Duration{"lease": c.Timing.Lease - 3*time.Second, "renew": c.Timing.Renew - 100*time.Millisecond,
		"renew and lease": c.Timing.Lease - 3*c.Timing.Renew, "recover": c.Timing.Recover - 100*time.Millisecond, "poll": c.Timing.Poll,
		"grace": c.Worker.Grace, "exits_by": c.Worker.ExitsBy - c.Worker.Grace - 1, "completed": c.Sweeper.Retention.Completed - 10*time.Second} {
		if d < 0 {
			t.Errorf("took %s, too short by %v", name, -d)
		}
	}
	if c.Namespace == "" || c.Postgres.MaxConns < 2 || c.Sweeper.Partitions.Ahead < 1 || c.Postgres.Schema == "" || c.Log.Level == "" {
		t.Errorf("took %+v", c)
	}
}
