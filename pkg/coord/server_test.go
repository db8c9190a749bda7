package coord_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/weirq/weir/pkg/coord"
)

var shared struct {
	once   sync.Once
	server *server
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.stop()
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// server is a private redis-server.
type server struct {
	addr string
	args []string
	cmd  *exec.Cmd
}

// start starts a private redis-server, or one again on the address that it had.
func (s *server) start() error {
	if s.addr == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.addr = l.Addr().String()
		_ = l.Close()
	}
	_, port, _ := net.SplitHostPort(s.addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	s.cmd.Dir = os.TempDir()
	if err := s.cmd.Start(); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.addr})
	defer rdb.Close()
	for range 500 {
		err := rdb.Ping(context.Background()).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		time.Sleep(10 * time.Millisecond) // poll of a condition: the port answers
	}
	s.stop()
	return fmt.Errorf("redis-server on %s does not answer", s.addr)
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func needServer(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server on PATH")
	}
}

// private starts a server for one test, which may flush, stop or reconfigure it.
func private(t testing.TB, args ...string) *server {
	t.Helper()
	needServer(t)
	s := &server{args: args}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// real returns a client of the server that all tests of this package share; they keep to their own namespaces.
func real(t testing.TB) *redis.Client {
	t.Helper()
	needServer(t)
	shared.once.Do(func() {
		s := &server{}
		if shared.err = s.start(); shared.err == nil {
			shared.server = s
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return dial(t, shared.server.addr)
}

func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// onEach runs a test on a real Redis and on miniredis.
func onEach(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, real(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, dial(t, miniredis.RunT(t).Addr()))
	})
}

func newNamespace() string { return "t" + strings.ToLower(rand.Text()[:12]) }

// patient is a configuration for tests on a loaded machine, which are not about the timeout.
func patient(namespace string) coord.Config {
	return coord.Config{Namespace: namespace, Timeout: 5 * time.Second}
}

// eventually waits for a condition and fails the test when it does not come.
func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
