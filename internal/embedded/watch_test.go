//go:build linux || darwin || freebsd

package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weirq/weir/internal/embedded"
)

// serveEnv makes the test binary start servers, say which, and wait.
const serveEnv = "WEIR_EMBEDDED_TEST_SERVE"

// served is what such a child says.
type served struct {
	PIDs []int
	Dirs []string
}

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func startRedis(t *testing.T, cfg embedded.RedisConfig) *embedded.Redis {
	t.Helper()
	r, err := embedded.StartRedis(t.Context(), cfg)
	if errors.Is(err, embedded.ErrNoBinary) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func redisClient(t *testing.T, r *embedded.Redis) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(r.URL())
	if err != nil {
		t.Fatal(err)
	}
	opt.ContextTimeoutEnabled = true
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// serve is the child: it never returns.
func serve(what string) {
	ctx := context.Background()
	pg, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	rd, err := embedded.StartRedis(ctx, embedded.RedisConfig{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dir, err := query(ctx, pg.URL(), `SHOW data_directory`)
	if err == nil && what == "paused" {
		err = pg.Pause()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := served{PIDs: []int{pg.PID()}, Dirs: []string{filepath.Dir(dir)}}
	if rd.PID() != os.Getpid() {
		out.PIDs = append(out.PIDs, rd.PID())
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0) // without Close: the watchdog's case too
}

// serving runs this test binary as a child that serves, as another user if cred is set.
func serving(t *testing.T, what string, cred *syscall.Credential) (*exec.Cmd, served) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if cred != nil {
		path = copyFor(t, path)
	}
	cmd := exec.Command(path)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), serveEnv+"="+what, "HOME=/")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	var s served
	if err := json.Unmarshal(line, &s); err != nil {
		t.Fatal(err)
	}
	for _, pid := range s.PIDs {
		if gone(pid) {
			t.Fatalf("server %d does not run", pid)
		}
	}
	return cmd, s
}

// copyFor copies the test binary to where any user may run it: the go command's directory is closed to others.
func copyFor(t *testing.T, path string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "weir-embedded-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	to := filepath.Join(dir, "child")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// waitGone waits until nothing of what was served is left.
func waitGone(t *testing.T, s served, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := ""
		for _, pid := range s.PIDs {
			if !gone(pid) {
				left += " process " + itoa(pid)
			}
		}
		for _, dir := range s.Dirs {
			if _, err := os.Stat(dir); err == nil {
				left += " " + dir
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s there is still%s", within, left)
		}
		<-tick.C
	}
}

func TestServersDieWithAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	cases := map[string]time.Duration{"running": 5 * time.Second, "paused": 10 * time.Second}
	for what, within := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cmd, s := serving(t, what, nil)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			waitGone(t, s, within)
		})
	}
}

func TestServersDieWithAProcessThatExits(t *testing.T) {
	t.Parallel()
	cmd, s := serving(t, "running", nil)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil { // unhandled: the runtime ends the process
		t.Fatal(err)
	}
	waitGone(t, s, 5*time.Second)
}

func TestAnOrdinaryUserCanServe(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("we are an ordinary user: the other tests show it")
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	cred := &syscall.Credential{Uid: uint32(atoi(t, u.Uid)), Gid: uint32(atoi(t, u.Gid))}
	cmd, s := serving(t, "running", cred)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitGone(t, s, 5*time.Second)
}
