//go:build linux || darwin || freebsd

package embedded_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/embedded"
)

func TestPgBouncerPoolsTransactionsAndIsGoneAfterClose(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, embedded.PostgresConfig{})
	b, err := embedded.StartPgBouncer(t.Context(), embedded.PgBouncerConfig{Target: p.URL(), PoolSize: 3})
	if errors.Is(err, embedded.ErrNoBinary) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	url := b.URL() + "&default_query_exec_mode=exec"
	if got := mustQuery(t, url, `SELECT inet_server_port()::text`); got != strconv.Itoa(p.Port()) {
		t.Errorf("the pooler leads to port %s, want %d", got, p.Port())
	}
	console := strings.Replace(b.URL(), "/postgres?", "/pgbouncer?", 1) + "&default_query_exec_mode=simple_protocol"
	if got := mustQuery(t, console, `SHOW VERSION`); !strings.HasPrefix(got, "PgBouncer") {
		t.Errorf("console says %q", got)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !gone(b.PID()) {
		t.Error("the process is left")
	}
}

func TestALockFileOfAReusedProcessIDDoesNotStopTheServer(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/cwd"); err != nil {
		t.Skip("only Linux lets us prove that a process is no server: ", err)
	}
	p := startPostgres(t, embedded.PostgresConfig{})
	data := mustQuery(t, p.URL(), `SHOW data_directory`)
	lock, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(lock), "\n")
	text := itoa(os.Getpid()) + "\n" + rest
	if err := os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestADirectoryOfTheCallersIsKeptAndUsedAgain(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("/tmp", "weir-embedded-test-*") // t.TempDir is closed to the user that root's servers run as
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "new", "data")
	first := startPostgres(t, embedded.PostgresConfig{Dir: dir})
	mustQuery(t, first.URL(), `CREATE TABLE kept AS SELECT 'yes' AS answer`)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	second := startPostgres(t, embedded.PostgresConfig{Dir: dir, Log: &log})
	if got := mustQuery(t, second.URL(), `SELECT answer FROM kept`); got != "yes" {
		t.Errorf("got %q", got)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "database system is ready") {
		t.Errorf("log: %q", log.String())
	}
}

func TestASettingThatPostgresRefusesIsNamedInTheError(t *testing.T) {
	t.Parallel()
	_, err := embedded.StartPostgres(t.Context(), embedded.PostgresConfig{Settings: map[string]string{"no_such": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such") {
		t.Errorf("got %v", err)
	}
}

func TestATakenPortIsAnErrorWhenItWasAskedFor(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, embedded.PostgresConfig{})
	if _, err := embedded.StartPostgres(t.Context(), embedded.PostgresConfig{Port: p.Port()}); err == nil {
		t.Error("Postgres started on a taken port")
	}
	if _, err := embedded.StartRedis(t.Context(), embedded.RedisConfig{Port: p.Port()}); err == nil {
		t.Error("Redis started on a taken port")
	}
}
