//go:build unix

package test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// The examples are run as their files say: go run ./cmd/worker --config examples/…

// exampleWorker starts the worker of an example and returns a client of its namespace.
func exampleWorker(t *testing.T, config string) (c *client.Client, output *bytes.Buffer) {
	t.Helper()
	url, namespace := testenv.Postgres(t), testenv.Namespace(t)
	cmd := exec.Command("go", "run", "./cmd/worker", "--config", config)
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "WEIR_POSTGRES_URL="+url, "WEIR_NAMESPACE="+namespace, "WEIR_WORKER_HTTP_LISTEN=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run and what it runs
	output = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		overdue := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer overdue.Stop()
		_ = cmd.Wait() // go run says that it was signalled
		if t.Failed() {
			t.Logf("the worker printed:\n%s", output)
		}
	})
	pool := testenv.Pool(t, url)
	c, err := client.New(pool, client.Config{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, output
}

// enqueue adds a job as soon as the worker has made the schema.
func enqueue(t *testing.T, c *client.Client, kind, payload string, options job.Options) job.ID {
	t.Helper()
	var id job.ID
	testenv.Eventually(t, 2*time.Minute, func() bool { // go run builds first
		e, err := c.Enqueue(context.Background(), job.Raw{Name: kind, Payload: json.RawMessage(payload)}, options)
		id = e.ID
		return err == nil
	}, "the worker has not begun")
	return id
}

func awaitState(t *testing.T, c *client.Client, id job.ID, want job.State) (row job.Row) {
	t.Helper()
	testenv.Eventually(t, time.Minute, func() bool {
		var err error
		row, err = c.Job(context.Background(), id)
		return err == nil && row.State == want
	}, "the job is %+v, want %s", &row, want)
	return row
}

func TestTheShellExampleRunsJobsWithoutGo(t *testing.T) {
	t.Parallel()
	c, _ := exampleWorker(t, filepath.Join("examples", "shell", "weir.yaml"))
	id := enqueue(t, c, "wordcount", `{"text": "one two three; $(touch /tmp/canary)"}`, job.Options{})
	row := awaitState(t, c, id, job.Completed)
	var got struct {
		Job     string
		Attempt int
		Words   int
		Bytes   int
	}
	if err := json.Unmarshal(row.Result, &got); err != nil || got.Job != id.String() || got.Attempt != 1 || got.Words != 6 || got.Bytes != 47 {
		t.Errorf("got %s, %v", row.Result, err)
	}
	later := enqueue(t, c, "wordcount", `{"busy": 1}`, job.Options{})
	if row := awaitState(t, c, later, job.Scheduled); row.Attempt != 0 {
		t.Errorf("a job that is to be tried later has used %d attempts", row.Attempt)
	}
	failed := enqueue(t, c, "wordcount", `{}`, job.Options{MaxAttempts: 1})
	if row := awaitState(t, c, failed, job.Discarded); row.Error != "command exited with status 1: the payload has no text" {
		t.Errorf("got %q", row.Error)
	}
}

func TestThePythonExampleRunsJobsWithoutGo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3 here")
	}
	c, _ := exampleWorker(t, filepath.Join("examples", "python", "weir.yaml"))
	id := enqueue(t, c, "primes", `{"below": 20}`, job.Options{})
	if row := awaitState(t, c, id, job.Completed); string(row.Result) != `{"primes": [2, 3, 5, 7, 11, 13, 17, 19]}` {
		t.Errorf("got %s", row.Result)
	}
	failed := enqueue(t, c, "primes", `{"below": "x"}`, job.Options{MaxAttempts: 1})
	row := awaitState(t, c, failed, job.Discarded)
	if row.Error != "command exited with status 1: ValueError: below is not a number" || !strings.Contains(row.Attempts[0].Stack, "Traceback") {
		t.Errorf("got %q with the stack %q", row.Error, row.Attempts[0].Stack)
	}
}
