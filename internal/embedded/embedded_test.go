//go:build linux || darwin || freebsd

package embedded_test

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/weirq/weir/internal/embedded"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(serveEnv); what != "" {
		serve(what)
	}
	goleak.VerifyTestMain(m)
}

// startPostgres starts a server without fsync and closes it when the test ends.
func startPostgres(t *testing.T, cfg embedded.PostgresConfig) *embedded.Postgres {
	t.Helper()
	if cfg.Settings == nil {
		cfg.Settings = map[string]string{"fsync": "off"}
	}
	p, err := embedded.StartPostgres(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// query runs sql on a new connection and returns the only value it gives, as text.
func query(ctx context.Context, url, sql string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return "", err
	}
	text, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(text, ","), err
}

func mustQuery(t *testing.T, url, sql string) string {
	t.Helper()
	text, err := query(t.Context(), url, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// gone reports whether no process has this id; one that waits to be reaped by somebody else is gone too.
func gone(pid int) bool {
	if stat, err := os.ReadFile("/proc/" + itoa(pid) + "/stat"); err == nil {
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "Z")
	}
	return syscall.Kill(pid, 0) == syscall.ESRCH
}

// backends returns the process ids of the server's children that show in pg_stat_activity.
func backends(t *testing.T, url string) []int {
	t.Helper()
	var pids []int
	for _, s := range strings.Split(mustQuery(t, url, `SELECT pid::text FROM pg_stat_activity`), ",") {
		pids = append(pids, atoi(t, s))
	}
	return pids
}

func TestAServerIsStartedAndClosedWithoutATrace(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, embedded.PostgresConfig{})
	if !strings.HasPrefix(mustQuery(t, p.URL(), `SHOW server_version`), p.Version()) || p.Version() == "" {
		t.Errorf("version: %q", p.Version())
	}
	if _, err := os.Stat(p.BinDir() + "/postgres"); err != nil {
		t.Error(err)
	}
	data := mustQuery(t, p.URL(), `SHOW data_directory`)
	pids := append(backends(t, p.URL()), p.PID())
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d of the server is left", pid)
		}
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("data directory is left: %v", err)
	}
	if err := p.Kill(); err == nil {
		t.Error("a closed server was killed")
	}
}

func TestAKilledServerKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, embedded.PostgresConfig{Settings: map[string]string{"fsync": "on"}})
	mustQuery(t, p.URL(), `CREATE TABLE kept AS SELECT 'yes' AS answer`)
	port, pids := p.Port(), append(backends(t, p.URL()), p.PID())
	for range 2 {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d of the server is left", pid)
		}
	}
	if _, err := query(t.Context(), p.URL(), `SELECT 'x'`); err == nil {
		t.Fatal("a killed server answered")
	}
	for range 2 { // the second one stops a running server
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := mustQuery(t, p.URL(), `SELECT answer FROM kept`); got != "yes" || p.Port() != port {
			t.Errorf("after restart: got %q on port %d, want yes on %d", got, p.Port(), port)
		}
	}
}

func TestAPausedServerAnswersNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, embedded.PostgresConfig{})
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	// The backend is stopped too, so an open connection is silent. A deadline would close it: read by hand.
	raw := conn.PgConn().Conn()
	if _, err := raw.Write([]byte("Q\x00\x00\x00\x0dSELECT 1\x00")); err != nil {
		t.Fatal(err)
	}
	_ = raw.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	var buf [1]byte
	n, err := raw.Read(buf[:])
	if timeout, ok := err.(net.Error); n != 0 || !ok || !timeout.Timeout() {
		t.Fatalf("a paused server answered: %d bytes, %v", n, err)
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	_ = raw.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := raw.Read(buf[:]); err != nil {
		t.Errorf("after resume: %v", err)
	}
}

func TestAPausedServerIsClosedPromptly(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, embedded.PostgresConfig{})
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestRedisIsKilledPausedAndRestartedEmpty(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{embedded.KindRedisServer, embedded.KindMiniredis} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := startRedis(t, embedded.RedisConfig{Kind: kind})
			c := redisClient(t, r)
			if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := r.Kill(); err != nil {
				t.Fatal(err)
			}
			if kind == embedded.KindRedisServer && !gone(r.PID()) {
				t.Error("the process is left")
			}
			if err := c.Ping(t.Context()).Err(); err == nil {
				t.Error("a killed server answered")
			}
			if err := r.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Exists(t.Context(), "k").Result(); n != 0 || err != nil {
				t.Errorf("a restarted server is not empty: %d, %v", n, err)
			}
			if kind == embedded.KindRedisServer {
				pauseRedis(t, r, c)
			}
		})
	}
}

func pauseRedis(t *testing.T, r *embedded.Redis, c *redis.Client) {
	t.Helper()
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Ping(short).Err(); err == nil {
		t.Error("a paused server answered")
	}
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after resume: %v", err)
	}
}

func TestAServerIsKilledWhileItsBackendsCompute(t *testing.T) {
	t.Parallel()
	p := startPostgres(t, embedded.PostgresConfig{})
	busy := make(chan error, 2)
	for range cap(busy) {
		go func() { // ends when the server does
			_, err := query(context.Background(), p.URL(), `SELECT count(*)::text FROM (SELECT generate_series(1, 1e12)) AS endless`)
			busy <- err
		}()
	}
	waitFor(t, func() bool {
		return mustQuery(t, p.URL(), `SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE '%AS endless'`) == "2"
	})
	pids := backends(t, p.URL())
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("backend %d is left", pid)
		}
	}
	for range cap(busy) {
		if err := <-busy; err == nil {
			t.Error("a killed backend answered")
		}
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// waitFor polls cond for at most ten seconds.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatal("what was waited for did not come")
		}
		<-tick.C
	}
}
