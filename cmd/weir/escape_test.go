package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// lockedBuffer is for a command that writes while the test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// control returns the first character of text that a terminal would obey.
func control(text string) (rune, bool) {
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return r, true
		}
	}
	return 0, !utf8.ValidString(text)
}

func TestEscapeLeavesNothingThatATerminalObeys(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":      "plain",
		"größe 数":    "größe 数",
		"\x1b[2J":    `\x1b[2J`,
		"a\rb\nc\td": `a\rb\nc\td`,
		"\u009b31m":  `\u009b31m`,
		"\u202egnp":  `\u202egnp`,
		"\xff\xfe":   `\xff\xfe`,
		"\x7f\x00":   `\x7f\x00`,
		"\ufffd":     "\ufffd",
		"\U000e0041": `\U000e0041`,
		"":           "",
	} {
		got := escape(in)
		if got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
		var out bytes.Buffer
		if n, err := clean(&out).Write([]byte(in)); n != len(in) || err != nil {
			t.Errorf("clean writer: %d, %v", n, err)
		}
		if r, bad := control(out.String()); bad {
			t.Errorf("the clean writer lets %q of %q through", r, in)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add(nasty)
	f.Fuzz(func(t *testing.T, s string) {
		if r, bad := control(escape(s)); bad {
			t.Errorf("escape(%q) leaves %q", s, r)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Skip()
		}
		escaped := escapeJSON(string(text))
		var back, same string
		if err := json.Unmarshal([]byte(escaped), &back); err != nil {
			t.Fatalf("escapeJSON(%q) is no JSON: %v", text, err)
		}
		if err := json.Unmarshal(text, &same); err != nil || back != same {
			t.Errorf("escapeJSON(%q) means %q", text, back)
		}
		if r, bad := control(escaped); bad {
			t.Errorf("escapeJSON(%q) leaves %q", text, r)
		}
	})
}

func TestNoCommandPrintsControlCharactersOfData(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	// A payload is any JSON; what client refuses elsewhere can come by SQL, which producers use too.
	id := strings.TrimSpace(c.want(exitDone, "enqueue", "echo", "\"\u009b2J\u202e\\u001b]0;x\\u0007\"", "--delay", "1h"))
	namespace := strings.TrimPrefix(c.env[0], "WEIR_NAMESPACE=")
	pool := testenv.Pool(t, testenv.Postgres(t))
	for _, sql := range []string{
		`UPDATE "` + namespace + `".live SET queue = $1, kind = $1`,
		`INSERT INTO "` + namespace + `".queues (name, paused_at) VALUES ($1, now())`,
		`INSERT INTO "` + namespace + `".kinds (name, paused_at) VALUES ($1, now())`,
		`INSERT INTO "` + namespace + `".sessions (id, lease_until, started_at, lease_ms, pid, role, host, version, state, queues, kinds)
			VALUES (gen_random_uuid(), now() + interval '1 min', now(), 60000, 1, 'worker', $1, $1, $1, ARRAY[$1], ARRAY[$1])`,
	} {
		if _, err := pool.Exec(t.Context(), sql, nasty); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"jobs", "list"}, {"jobs", "show", id, "--payload"}, {"queues", "list"}, {"kinds", "list"}, {"workers", "list"},
		{"jobs", "show", nasty}, {"queues", "resume", nasty}, {nasty}, {"jobs", nasty}, {"jobs", "list", "--queue", nasty}, {"enqueue", nasty},
		{"jobs", "cancel", "--queue", nasty}, {"jobs", "list", "--" + nasty}, {"enqueue", "x", nasty}, {"enqueue", "x", "--meta", nasty}, {"--config", nasty, "config"},
	} {
		for _, args := range [][]string{args, append(args, "--json")} {
			r := c.do(args...)
			if char, bad := control(r.out + r.err); bad {
				t.Errorf("weir %q prints %q:\n%q", args, char, r.out+r.err)
			}
			if strings.Contains(r.out+r.err, "\n\x1b") || strings.Contains(r.out+r.err, "\nforged") {
				t.Errorf("weir %q: data begins a line:\n%s", args, r.out+r.err)
			}
		}
	}
}

func TestAnErrorOfAHandlerIsShownWithoutItsControlCharacters(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	c.work()
	r := c.do("enqueue", "bad", "--wait=20s")
	if r.code != exitFailed || !strings.Contains(r.err, `\x1b]0;x`) || strings.Count(r.err, "\n") != 1 {
		t.Errorf("enqueue --wait: %d, %q", r.code, r.err)
	}
	var shown string
	for _, args := range [][]string{{"jobs", "list", "--state", "discarded"}, {"jobs", "list", "--json"}} {
		shown += c.want(exitDone, args...)
	}
	var row job.Row
	if err := json.Unmarshal([]byte(c.want(exitDone, "jobs", "list", "--json")), &row); err != nil {
		t.Fatal(err)
	}
	shown += c.want(exitDone, "jobs", "show", row.ID.String(), "--stack") + r.err
	if char, bad := control(shown); bad {
		t.Errorf("%q is printed in:\n%q", char, shown)
	}
	if !strings.Contains(row.Error, "\x1b[2J") {
		t.Errorf("as JSON the error is %q: want it whole", row.Error)
	}
}

func TestTextsAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0.0s", 12400 * time.Millisecond: "12.4s", 5 * time.Minute: "5m", 186 * time.Minute: "3.1h", 100 * time.Hour: "4d", -2 * time.Second: "-2.0s",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %s, want %s", n, got, want)
		}
	}
	for in, want := range map[string]time.Duration{"250ms": 250 * time.Millisecond, "14d": 14 * 24 * time.Hour, "1d12h": 36 * time.Hour} {
		var d duration
		if err := d.Set(in); err != nil || time.Duration(d) != want {
			t.Errorf("duration %s = %v, %v", in, time.Duration(d), err)
		}
	}
	for _, in := range []string{"", "5", "-1s", "1w", "d"} {
		var d duration
		if err := d.Set(in); err == nil {
			t.Errorf("duration %q is taken for %v", in, time.Duration(d))
		}
	}
	if note := noteOf(client.QueueInfo{Name: "mial", Ready: 12}, []client.QueueInfo{{Name: "mail", Workers: 1}}); note != `mial has 12 jobs and no worker serves it -> a typo of "mail"?` {
		t.Errorf("note is %s", note)
	}
}
