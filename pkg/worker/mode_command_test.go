//go:build unix

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func shell(script string) worker.Command {
	return worker.Command{Args: []string{"sh", "-c", script}, RetryAfter: time.Hour}
}

func raw(kind, payload string) job.Raw { return job.Raw{Name: kind, Payload: json.RawMessage(payload)} }

func TestACommandReadsThePayloadAndPrintsTheResult(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	w := r.worker(func(cfg *worker.Config) { cfg.Queues[0].Slots = 12 })
	file := filepath.Join(t.TempDir(), "pid")
	for kind, script := range map[string]string{
		"cat": "cat", "text": "echo 'just  text'", "nothing": "true", "exit": "echo first >&2; echo last >&2; exit 3",
		"later": "exit 75", "long": "yes", "longer": "head -c 70000 /dev/zero | tr '\\0' x", "ignores": "exec 0<&-; echo 1",
		"background": "(trap '' TERM; exec setsid sleep 600) & echo $! >" + file + "; echo 2", "signal": "kill -9 $$",
		"slow": "trap '' TERM; sleep 600", "env": "env",
	} {
		worker.HandleCommand(w, kind, shell(script), worker.HandlerOptions{Timeout: time.Minute})
	}
	r.run(w)
	payload := `{"text": "; touch /tmp/x $(id) -o/tmp/x ../../etc/passwd", "n": 9007199254740993}`
	once := job.Options{MaxAttempts: 1}
	for kind, want := range map[string]string{"cat": payload, "text": `"just  text"`, "nothing": "", "ignores": "1", "background": "2"} {
		if row := r.reaches(r.add(raw(kind, payload), once), job.Completed); string(row.Result) != want {
			t.Errorf("%s: got %s, want %s", kind, row.Result, want)
		}
	}
	gone(t, file)
	for kind, want := range map[string]string{
		"exit": "command exited with status 3: last", "long": "result is a longer output, want at most 65536 bytes",
		"longer": "result is a longer output", "signal": "command was ended by a signal: killed",
	} {
		row := r.reaches(r.add(raw(kind, payload), once), job.Discarded)
		if !strings.Contains(row.Error, want) || kind == "exit" && row.Attempts[0].Stack != "first\nlast" {
			t.Errorf("%s: got %q, %+v", kind, row.Error, row.Attempts)
		}
	}
	later := r.add(raw("later", payload))
	if row := r.reaches(later, job.Scheduled); row.Attempt != 0 || time.Until(row.ReadyAt) < 50*time.Minute {
		t.Errorf("later: %+v", row)
	}
	began := time.Now()
	row := r.reaches(r.add(raw("slow", payload), job.Options{MaxAttempts: 1, Timeout: 500 * time.Millisecond}), job.Discarded)
	if row.Attempts[0].Outcome != "timed out" || time.Since(began) > soon/2 {
		t.Errorf("slow: %+v after %v", row.Attempts, time.Since(began))
	}
}

func TestACommandSeesItsJobAndWhatWasConfiguredAndNothingElse(t *testing.T) {
	t.Setenv("WEIR_POSTGRES_LEASE_URL", "postgres://S3CR3T") // so not parallel
	t.Setenv("OTHER_SECRET", "S3CR3T")
	r := setup(t, testenv.RedisNone)
	w := r.worker()
	c := shell("env")
	c.Env = []string{"GREETING=hello", "TZ"}
	worker.HandleCommand(w, "env", c)
	r.run(w)
	id := r.add(raw("env", `{"secret": "in the payload"}`))
	var names []string
	for line := range strings.Lines(result[string](r, id)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		names = append(names, name)
		if strings.Contains(value, "S3CR3T") || strings.Contains(value, "payload") {
			t.Errorf("the command sees %s", line)
		}
	}
	for _, name := range names {
		known := []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "GREETING", "WEIR_CHILD_COOKIE", "PWD", "SHLVL", "_", "OLDPWD",
			"SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH", "GOCOVERDIR"}
		if !strings.HasPrefix(name, "WEIR_JOB_") && !strings.HasPrefix(name, "LC_") && !slices.Contains(known, name) {
			t.Errorf("the command sees the variable %s", name)
		}
	}
	for _, name := range []string{"GREETING", "WEIR_JOB_ID", "WEIR_JOB_KIND", "WEIR_JOB_ATTEMPT", "WEIR_JOB_TIMEOUT_MS"} {
		if !slices.Contains(names, name) {
			t.Errorf("the command does not see %s", name)
		}
	}
}

func TestAProgramThatIsNotThereUsesNoAttempt(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	w := r.worker()
	path := filepath.Join(t.TempDir(), "comes-later.sh")
	worker.HandleCommand(w, "later", worker.Command{Args: []string{path}})
	worker.HandleCommand(w, "lost", worker.Command{Args: []string{"weir-no-such-program"}})
	events, stop := w.Events(100)
	defer stop()
	r.run(w)
	id, lost := r.add(raw("later", "{}"), job.Options{MaxAttempts: 1}), r.add(raw("lost", "{}"), job.Options{MaxAttempts: 1})
	for seen := map[job.ID]bool{}; !seen[id] || !seen[lost]; {
		if ev := receive(t, events, "event"); ev.Type == worker.EventError && strings.Contains(ev.Err.Error(), "start ") {
			seen[ev.Row.ID] = true
		}
	}
	for _, id := range []job.ID{id, lost} {
		row := r.until(id, "a release", func(row job.Row) bool { return row.State != job.Running && row.Fence > 1 })
		if row.State.Final() || row.Attempt != 0 || row.Crashes != 0 || len(row.Attempts) != 0 {
			t.Errorf("the job is %+v", row)
		}
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho 7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := result[int](r, id); got != 7 {
		t.Errorf("got %d", got)
	}
}

func TestAWebhookIsPostedThePayloadAndAnswersTheResult(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisReal)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		switch in.Header.Get("Weir-Job-Kind") {
		case "echo":
			if in.Header.Get("Authorization") != "Bearer s3cret" || in.URL.RequestURI() != "/hook?key=S3CR3T" {
				out.WriteHeader(http.StatusForbidden)
			}
			_, _ = out.Write(body)
		case "busy":
			out.Header().Set("Retry-After", "7200")
			out.WriteHeader(http.StatusTooManyRequests)
		case "away":
			http.Redirect(out, in, "http://169.254.169.254/", http.StatusTemporaryRedirect)
		default:
			out.WriteHeader(http.StatusInternalServerError)
			_, _ = out.Write([]byte("it broke\nhere"))
		}
	}))
	t.Cleanup(server.Close)
	w := r.worker()
	for _, kind := range []string{"echo", "busy", "away", "broken"} {
		worker.HandleWebhook(w, kind, worker.Webhook{URL: server.URL + "/hook?key=S3CR3T", Token: "s3cret"})
	}
	worker.HandleWebhook(w, "dead", worker.Webhook{URL: "http://127.0.0.1:1/hook?key=S3CR3T"})
	r.run(w)
	if row := r.reaches(r.add(raw("echo", `{"a": 1}`)), job.Completed); string(row.Result) != `{"a": 1}` {
		t.Errorf("got %s", row.Result)
	}
	if row := r.reaches(r.add(raw("busy", "{}")), job.Scheduled); row.Attempt != 0 || time.Until(row.ReadyAt) < time.Hour {
		t.Errorf("busy: %+v", row)
	}
	for kind, want := range map[string]string{"away": "answered 307", "broken": "answered 500: it broke", "dead": "connection refused"} {
		row := r.reaches(r.add(raw(kind, "{}"), job.Options{MaxAttempts: 1}), job.Discarded)
		if !strings.Contains(row.Error, want) || strings.Contains(row.Error, "S3CR3T") {
			t.Errorf("%s: got %q, want %q", kind, row.Error, want)
		}
	}
}

func TestCommandsAndWebhooksThatCannotBeMeantPanic(t *testing.T) {
	t.Parallel()
	r := setup(t, testenv.RedisNone)
	for name, register := range map[string]func(w *worker.Worker){
		"no program":   func(w *worker.Worker) { worker.HandleCommand(w, "a", worker.Command{}) },
		"a NUL":        func(w *worker.Worker) { worker.HandleCommand(w, "a", worker.Command{Args: []string{"x\x00"}}) },
		"a file":       func(w *worker.Worker) { worker.HandleWebhook(w, "a", worker.Webhook{URL: "file:///etc/passwd"}) },
		"a password":   func(w *worker.Worker) { worker.HandleWebhook(w, "a", worker.Webhook{URL: "http://u:S3CR3T@h/"}) },
		"a wrong kind": func(w *worker.Worker) { worker.HandleCommand(w, "a b", shell("true")) },
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || strings.Contains(p.(string), "S3CR3T") {
					t.Errorf("%s: recovered %v", name, p)
				}
			}()
			register(r.worker())
		}()
	}
}

func ExampleHandleCommand() {
	withAndWithoutRedis(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{})
		if err != nil {
			panic(err)
		}
		worker.HandleCommand(w, "shout", worker.Command{Args: []string{"tr", "a-z", "A-Z"}}) // the payload is its stdin
		e, err := c.Enqueue(ctx, job.Raw{Name: "shout", Payload: json.RawMessage(`"hello"`)})
		if err != nil {
			panic(err)
		}
		if _, err := w.Drain(ctx, worker.DrainOptions{}); err != nil {
			panic(err)
		}
		fmt.Println(client.Await[string](ctx, c, e.ID)) // what it printed
	})
	// Output:
	// mode miniredis
	// HELLO <nil>
	// mode none
	// HELLO <nil>
}
