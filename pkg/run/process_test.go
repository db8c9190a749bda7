package run_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// soon is how long the machine may take for what takes milliseconds.
const soon = 20 * time.Second

// programs are the built binaries.
type programs struct{ dir string }

func build(t *testing.T) programs {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", dir+string(os.PathSeparator),
		"github.com/weirq/weir/cmd/worker", "github.com/weirq/weir/cmd/sweeper", "github.com/weirq/weir/cmd/weir")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the programs: %v\n%s", err, out)
	}
	return programs{dir}
}

// buffer collects what a process writes.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// process is one that runs.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr buffer
	done           chan struct{}
	code           int // valid after done
}

// environ is the surroundings of a process: nothing of the test's own settings.
func environ(settings ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "USER=tester",
		"WEIR_WORKER_HTTP_LISTEN=127.0.0.1:0", "WEIR_SWEEPER_HTTP_LISTEN=127.0.0.1:0", "WEIR_POSTGRES_SCHEMA=migrate", "WEIR_TIMING_LEASE=3s", "WEIR_TIMING_POLL=500ms"}
	return append(env, settings...)
}

func (p programs) start(t *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	q := &process{t: t, cmd: exec.Command(filepath.Join(p.dir, name), args...), done: make(chan struct{})}
	q.cmd.Env, q.cmd.Dir = env, t.TempDir()
	q.cmd.Stdout, q.cmd.Stderr = &q.stdout, &q.stderr
	if err := q.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(q.done)
		var exit *exec.ExitError
		if err := q.cmd.Wait(); errors.As(err, &exit) {
			q.code = exit.ExitCode()
		}
	}()
	t.Cleanup(func() {
		_ = q.cmd.Process.Kill() // it may have ended
		<-q.done
		if t.Failed() {
			t.Logf("%s wrote:\n%s%s", name, q.stdout.String(), q.stderr.String())
		}
	})
	return q
}

// run is start and wait.
func (p programs) run(t *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	q := p.start(t, name, env, args...)
	q.wait(soon)
	return q
}

func (q *process) signal(s os.Signal) {
	q.t.Helper()
	if err := q.cmd.Process.Signal(s); err != nil {
		q.t.Fatal(err)
	}
}

// wait returns the exit code.
func (q *process) wait(within time.Duration) int {
	q.t.Helper()
	select {
	case <-q.done:
	case <-time.After(within):
		q.t.Fatalf("%s has not ended within %v", q.cmd.Path, within)
	}
	return q.code
}

func (q *process) awaitLog(text string) {
	q.t.Helper()
	testenv.Eventually(q.t, soon, func() bool { return strings.Contains(q.stderr.String(), text) }, "no %q in the log", text)
}

var listens = regexp.MustCompile(`http listens.*?address"?[=:]"?([0-9.:]+)`)

func (q *process) url(path string) string {
	q.t.Helper()
	q.awaitLog("http listens")
	return "http://" + listens.FindStringSubmatch(q.stderr.String())[1] + path
}

// get returns the status and body of a route.
func (q *process) get(path string) (int, string) {
	q.t.Helper()
	ctx, cancel := context.WithTimeout(q.t.Context(), soon)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url(path), nil)
	if err != nil {
		q.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		q.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		q.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (q *process) awaitReady() {
	q.t.Helper()
	var body string
	testenv.Eventually(q.t, soon, func() bool {
		var code int
		code, body = q.get("/readyz")
		return code == http.StatusOK
	}, "%s is not ready", q.cmd.Path)
	if !strings.HasPrefix(body, "ok\n") {
		q.t.Errorf("ready, and it says %q", body)
	}
}

func (q *process) close() {
	q.t.Helper()
	q.signal(syscall.SIGTERM)
	if code := q.wait(soon); code != 0 {
		q.t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}
