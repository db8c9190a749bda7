package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/demojobs"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/run"
	"github.com/weirq/weir/pkg/worker"
)

// These tests are in package main, since nobody can import it; they use nothing but execute and the texts.

// cli is one deployment that commands are given.
type cli struct {
	t     *testing.T
	env   []string
	stdin string
}

// result is what a command did.
type result struct {
	code     int
	out, err string
}

func (c *cli) do(args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	return c.doIn(ctx, args...)
}

func (c *cli) doIn(ctx context.Context, args ...string) result {
	var out, err bytes.Buffer
	code := execute(ctx, &app{args: args, env: c.env, in: strings.NewReader(c.stdin), out: &out, err: &err})
	return result{code, out.String(), err.String()}
}

// want fails the test unless the command ends with code, and returns what it printed.
func (c *cli) want(code int, args ...string) string {
	c.t.Helper()
	r := c.do(args...)
	if r.code != code {
		c.t.Fatalf("weir %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
	}
	return r.out
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	return &cli{t: t, env: []string{
		"WEIR_NAMESPACE=" + testenv.Namespace(t), "WEIR_POSTGRES_URL=" + testenv.Postgres(t),
		"WEIR_WORKER_HTTP_LISTEN=off", "WEIR_TIMING_LEASE=3s", "WEIR_WORKER_GRACE=1s",
	}}
}

// Bad fails with a text that would take a terminal over.
type Bad struct{}

func (Bad) Kind() string { return "bad" }

const nasty = "\x1b]0;x\x07\x1b[2Jred\rover\u009b31m\u202egnp.exe\n\x1b[1mforged\x7f"

// work runs a worker with the demo's handlers until the test ends.
func (c *cli) work() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	var log bytes.Buffer
	go func() {
		ended <- run.WorkerMain(ctx, nil, c.env, &log, &log, func(w *worker.Worker, _ *client.Client) error {
			worker.Handle(w, func(context.Context, *worker.Job[Bad]) error { return job.Discard(errors.New(nasty)) })
			return demojobs.Register(w, ".")
		})
	}()
	c.t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			c.t.Errorf("the worker ended with %d: %s", code, log.String())
		}
	})
}

func TestAJobGoesFromEnqueueToItsResult(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	id := strings.TrimSpace(c.want(exitDone, "enqueue", "echo", `{"n": 1}`, "--tag", "eu", "--meta", "req=7", "--priority", "2"))
	if out := c.want(exitDone, "queues", "list"); !strings.Contains(out, "default has 1 job and no worker serves it") {
		t.Errorf("queues list does not say that nobody serves the queue:\n%s", out)
	}
	for _, args := range [][]string{{"--tag", "eu"}, {"--queue", "default"}, {"--kind", "echo"}, {"--state", "available"}, {"--since", "1d"}} {
		if out := c.want(exitDone, append([]string{"jobs", "list"}, args...)...); !strings.Contains(out, id) {
			t.Errorf("jobs list %v does not show it:\n%s", args, out)
		}
	}
	if out := c.want(exitDone, "jobs", "list", "--queue", "other"); out != "no jobs\n" {
		t.Errorf("jobs of another queue: %s", out)
	}
	c.work()
	if out := c.want(exitDone, "enqueue", "echo", `"two"`, "--wait=20s"); out != "\"two\"\n" {
		t.Errorf("enqueue --wait printed %q", out)
	}
	testenv.Eventually(t, 20*time.Second, func() bool {
		return strings.Contains(c.want(exitDone, "jobs", "show", id), "completed")
	}, "the first job does not end")
	if out := c.want(exitDone, "jobs", "show", id, "--payload"); !strings.Contains(out, `payload   {"n": 1}`) || !strings.Contains(out, "req=7") {
		t.Errorf("jobs show:\n%s", out)
	}
	if out := c.want(exitDone, "workers", "list"); !strings.Contains(out, "serving") || !strings.Contains(out, "default") {
		t.Errorf("workers list:\n%s", out)
	}
	if out := c.want(exitDone, "kinds", "list"); !strings.Contains(out, "checksum") {
		t.Errorf("kinds list:\n%s", out)
	}
}

func TestExitCodesTellWhatHappened(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitFailed, "jobs", "list") // the schema is not there
	c.want(exitDone, "migrate", "up")
	id := strings.TrimSpace(c.want(exitDone, "enqueue", "echo"))
	missing := new(job.IDs).New().String()
	for _, test := range []struct {
		code int
		args string
	}{
		{exitUsage, "nonsense"},
		{exitUsage, "jobs nonsense"},
		{exitUsage, "jobs list --nonsense"},
		{exitUsage, "jobs list extra"},
		{exitUsage, "jobs list --state nonsense"},
		{exitUsage, "jobs show"},
		{exitUsage, "jobs show x"},
		{exitUsage, "jobs cancel"},
		{exitUsage, "jobs cancel " + id + " --queue q"},
		{exitUsage, "enqueue"},
		{exitUsage, "enqueue echo {"},
		{exitUsage, "enqueue bad!kind"},
		{exitUsage, "enqueue echo --priority 11"},
		{exitUsage, "enqueue echo --delay 5"},
		{exitUsage, "migrate sql --from 99"},
		{exitNotFound, "jobs show " + missing},
		{exitNotFound, "jobs show 7ZZZZZ"},
		{exitNotFound, "jobs cancel " + missing},
		{exitNotFound, "jobs retry " + missing},
		{exitNotFound, "jobs delete " + missing},
		{exitRefused, "jobs cancel --queue default"},
		{exitRefused, "jobs delete --kind echo --json"},
		{exitDone, "jobs cancel --queue default --yes"},
		{exitDone, "jobs retry " + id},
		{exitDone, "jobs delete " + id},
		{exitNotFound, "jobs show " + id},
		{exitDone, "help"},
		{exitDone, "jobs"},
		{exitDone, "completion bash"},
	} {
		c.want(test.code, strings.Fields(test.args)...)
	}
	dead := &cli{t: t, env: []string{"WEIR_POSTGRES_URL=postgres://app:S3CR3T@127.0.0.1:1/db"}}
	r := dead.do("jobs", "list")
	want := "weir: postgres: connect to 127.0.0.1:1 as app: connection refused\n-> check postgres.url (from WEIR_POSTGRES_URL), or start the server: nothing listens there\n"
	if r.code != exitUnreachable || r.err != want {
		t.Errorf("without Postgres: %d, %q, want %d, %q", r.code, r.err, exitUnreachable, want)
	}
	for _, args := range [][]string{{"config"}, {"version"}, {"migrate", "sql"}} {
		dead.want(exitDone, args...)
	}
}

func TestAnIDIsFoundInEveryForm(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	const one, other = "01M8Q1AXY8FZ4D386SZJ4E54Z4", "01M8Q1AXY8FZ4D386SZJ4E54ZZ"
	for _, id := range []string{one, other} {
		c.want(exitDone, "enqueue", "echo", "--id", id)
	}
	id, err := job.ParseID(one)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{one, strings.ToLower(one), id.UUID(), strings.ToUpper(id.UUID())} {
		if out := c.want(exitDone, "jobs", "show", form); !strings.HasPrefix(out, one) {
			t.Errorf("%s shows\n%s", form, out)
		}
	}
	r := c.do("jobs", "show", one[:10])
	if r.code != exitUsage || !strings.Contains(r.err, one) || !strings.Contains(r.err, other) {
		t.Errorf("a prefix of two: %d %s", r.code, r.err)
	}
	c.want(exitDone, "jobs", "delete", other)
	if out := c.want(exitDone, "jobs", "show", strings.ToLower(one[:10])); !strings.HasPrefix(out, one) {
		t.Errorf("a prefix of one shows\n%s", out)
	}
	if out := c.want(exitDone, "enqueue", "echo", "--id", one); !strings.Contains(out, "was there before") {
		t.Errorf("enqueueing it again prints %s", out)
	}
}

func TestAPayloadComesFromArgumentFileOrStdin(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	file := filepath.Join(t.TempDir(), "args.json")
	if err := os.WriteFile(file, []byte(`{"from": "file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c.stdin = `{"from": "stdin"}`
	for arg, want := range map[string]string{`{"from": "argument"}`: `{"from": "argument"}`, "@" + file: `{"from": "file"}`, "-": `{"from": "stdin"}`} {
		id := strings.TrimSpace(c.want(exitDone, "enqueue", "any", arg))
		if out := c.want(exitDone, "jobs", "show", id, "--payload"); !strings.Contains(out, "payload   "+want+"\n") {
			t.Errorf("%s: want %s in\n%s", arg, want, out)
		}
	}
	c.want(exitFailed, "enqueue", "any", "@"+file+".not")
	c.stdin = `"` + strings.Repeat("x", job.MaxPayloadBytes) + `"`
	c.want(exitUsage, "enqueue", "any", "-")
}

func TestPausesAreShownAndEnded(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	c.want(exitDone, "queues", "pause", "mail")
	c.want(exitDone, "kinds", "pause", "report")
	if out := c.want(exitDone, "queues", "list"); !strings.Contains(out, "mail is paused since") {
		t.Errorf("queues list:\n%s", out)
	}
	if out := c.want(exitDone, "kinds", "list"); !strings.Contains(out, "paused") {
		t.Errorf("kinds list:\n%s", out)
	}
	c.want(exitDone, "queues", "resume", "mail")
	c.want(exitDone, "kinds", "resume", "report")
	if out := c.want(exitDone, "queues", "list", "--json") + c.want(exitDone, "kinds", "list", "--json"); strings.Contains(out, "true") {
		t.Errorf("after resuming:\n%s", out)
	}
}

func TestTailPrintsEachChangeUntilItIsEnded(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	old := strings.TrimSpace(c.want(exitDone, "enqueue", "old"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := &app{args: []string{"jobs", "tail", "--json"}, env: c.env, in: strings.NewReader(""), out: &lockedBuffer{}, err: &lockedBuffer{}}
	ended := make(chan int, 1)
	go func() { ended <- execute(ctx, a) }()
	var fresh []string
	testenv.Eventually(t, 20*time.Second, func() bool { // the first look takes what is there for known
		fresh = append(fresh, strings.TrimSpace(c.want(exitDone, "enqueue", "new")))
		return strings.Contains(a.out.(*lockedBuffer).String(), `"state":"available"`)
	}, "tail prints nothing")
	c.want(exitDone, append([]string{"jobs", "cancel"}, fresh...)...)
	testenv.Eventually(t, 20*time.Second, func() bool {
		return strings.Count(a.out.(*lockedBuffer).String(), `"state":"cancelled"`) == len(fresh)
	}, "tail does not print the end")
	cancel()
	if code := <-ended; code != exitDone {
		t.Errorf("tail ended with %d", code)
	}
	if strings.Contains(a.out.(*lockedBuffer).String(), old) {
		t.Errorf("tail printed what was there before")
	}
}

func TestJSONIsOneObjectALine(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up", "--json")
	c.work()
	c.want(exitDone, "enqueue", "echo", "1", "--wait=20s", "--json")
	for _, args := range []string{
		"enqueue echo", "jobs list", "queues list", "workers list", "kinds list", "migrate status", "migrate sql", "config", "version", "queues pause q", "kinds resume k",
		"jobs cancel --queue x --yes",
	} {
		out := c.want(exitDone, append(strings.Fields(args), "--json")...)
		for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
			var object map[string]any
			if err := json.Unmarshal([]byte(line), &object); err != nil {
				t.Errorf("weir %s: %v in %q", args, err, line)
			}
		}
	}
}

func TestLinesFitATerminalOf80Columns(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	long := strings.Repeat("long-name.", 12)
	c.want(exitDone, "enqueue", long, "--queue", long, "--delay", "1h")
	c.want(exitDone, "queues", "pause", long)
	root := (&app{}).root()
	var helps [][]string
	for _, group := range root.Commands() {
		if group.Hidden || slices.Contains([]string{"completion"}, group.Name()) {
			continue // cobra's own texts, and those with tests of their own
		}
		helps = append(helps, []string{group.Name(), "--help"})
		for _, sub := range group.Commands() {
			if !sub.Hidden {
				helps = append(helps, []string{group.Name(), sub.Name(), "--help"})
			}
		}
	}
	for _, args := range append(helps, []string{"--help"}, []string{"jobs", "list"}, []string{"queues", "list"}, []string{"kinds", "list"}, []string{"workers", "list"}, []string{"migrate", "status"}, []string{"config"}) {
		for _, line := range strings.Split(c.want(exitDone, args...), "\n") {
			if n := len([]rune(line)); n > 80 && !strings.HasPrefix(line, "! ") {
				t.Errorf("weir %s: %d columns: %s", strings.Join(args, " "), n, line)
			}
		}
	}
}
