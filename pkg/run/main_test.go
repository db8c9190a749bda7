package run_test

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
)

// The tests of whole processes share the binaries, which are built once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	bins := build(t)
	for name, test := range map[string]func(*testing.T, programs){
		"a worker runs what weir enqueue adds, and SIGTERM closes it":         runsAndCloses,
		"the second signal ends a worker at once":                             secondSignal,
		"a worker that was started before Postgres begins when it comes":      beforePostgres,
		"a sweeper is ready, and SIGINT closes it":                            sweeperCloses,
		"a wrong configuration ends a process before it connects":             wrongConfiguration,
		"a schema that is not installed ends a process with the next step":    notInstalled,
		"a port that is taken ends a process with the name of its setting":    portTaken,
		"a worker without its Redis works from Postgres alone":                redisAway,
		"a worker works behind a transaction pooler":                          behindPooler,
		"no secret is in what a process writes, serves or shows of itself":    secrets,
		"three routes are served and nothing else":                            routes,
		"the number of series does not grow with what producers send":         series,
		"metrics.md lists exactly what the processes serve":                   documented,
		"a worker that was told to end while it waits for Postgres does so":   endsWhileWaiting,
		"--check-config and --version connect to nothing and end the process": flags,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bins)
		})
	}
}

// surroundings returns settings for the shared servers and a namespace of the test's own.
func surroundings(t *testing.T) []string {
	return environ("WEIR_NAMESPACE="+testenv.Namespace(t), "WEIR_POSTGRES_URL="+testenv.Postgres(t))
}

func runsAndCloses(t *testing.T, bins programs) {
	env := append(surroundings(t), "WEIR_REDIS_URL="+testenv.RedisURL(t))
	worker := bins.start(t, "worker", env)
	worker.awaitReady()
	got := bins.run(t, "weir", env, "enqueue", "echo", `{"say": "hi"}`, "--wait=20s")
	if got.code != 0 || got.stdout.String() != "{\"say\":\"hi\"}\n" {
		t.Errorf("weir enqueue ended with %d and printed %q, %q", got.code, got.stdout.String(), got.stderr.String())
	}
	if code, body := worker.get("/livez"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/livez is %d %q", code, body)
	}
	if _, body := worker.get("/readyz"); !strings.Contains(body, "redis: ok") {
		t.Errorf("/readyz is %q, want Redis mentioned", body)
	}
	worker.close()
	if log := worker.stderr.String(); !strings.Contains(log, "closing") || !strings.Contains(log, "msg=closed") {
		t.Errorf("the log does not tell of the close")
	}
	if workers := bins.run(t, "weir", env, "workers", "list", "--json"); workers.stdout.String() != "" {
		t.Errorf("after the close there is still %s", workers.stdout.String())
	}
}

func secondSignal(t *testing.T, bins programs) {
	env := append(surroundings(t), "WEIR_WORKER_GRACE=1h", "WEIR_WORKER_EXITS_BY=2h")
	worker := bins.start(t, "worker", env)
	worker.awaitReady()
	bins.run(t, "weir", env, "enqueue", "sleep", `{"ms": 600000}`)
	testenv.Eventually(t, soon, func() bool {
		_, body := worker.get("/metrics")
		return strings.Contains(body, "weir_worker_running_jobs 1\n")
	}, "the job does not run")
	worker.signal(syscall.SIGTERM)
	worker.awaitLog("closing")
	if code, body := worker.get("/livez"); code != http.StatusOK {
		t.Errorf("/livez while closing is %d %q, want 200: nothing is wrong with it", code, body)
	}
	if code, body := worker.get("/readyz"); code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "closing") {
		t.Errorf("/readyz while closing is %d %q", code, body)
	}
	worker.signal(syscall.SIGTERM)
	if code := worker.wait(5 * time.Second); code != 143 {
		t.Errorf("exit code %d after the second SIGTERM, want 143", code)
	}
}

func beforePostgres(t *testing.T, bins programs) {
	server := testenv.PrivatePostgres(t)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	env := environ("WEIR_POSTGRES_URL="+server.URL(), "WEIR_LOG_FORMAT=json")
	worker, sweeper := bins.start(t, "worker", env), bins.start(t, "sweeper", env)
	for _, p := range []*process{worker, sweeper} {
		p.awaitLog("connection refused")
		if code, body := p.get("/livez"); code != http.StatusOK {
			t.Errorf("/livez without Postgres is %d %q, want 200", code, body)
		}
		if code, body := p.get("/readyz"); code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "starting: waiting for postgres\n") {
			t.Errorf("/readyz without Postgres is %d %q", code, body)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	worker.awaitReady()
	sweeper.awaitReady()
	if n := strings.Count(worker.stderr.String(), "waiting for postgres"); n > 3 {
		t.Errorf("the log says %d times that it waits, want once for each reason", n)
	}
	outage(t, server.Kill, func() error { return server.Restart(ctx) }, worker, sweeper)
	worker.close()
	sweeper.close()
}

// outage ends Postgres below processes that run: they stay alive, are not ready, and come back.
func outage(t *testing.T, stop, start func() error, ps ...*process) {
	t.Helper()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		testenv.Eventually(t, soon, func() bool {
			code, _ := p.get("/readyz")
			return code == http.StatusServiceUnavailable
		}, "%s is ready without Postgres", p.cmd.Path)
		if code, body := p.get("/livez"); code != http.StatusOK {
			t.Errorf("/livez in an outage is %d %q, want 200: a restart would only lose handlers", code, body)
		}
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		p.awaitReady()
	}
}

func sweeperCloses(t *testing.T, bins programs) {
	sweeper := bins.start(t, "sweeper", surroundings(t))
	sweeper.awaitReady()
	if code, body := sweeper.get("/livez"); code != http.StatusOK {
		t.Errorf("/livez is %d %q", code, body)
	}
	sweeper.signal(syscall.SIGINT)
	if code := sweeper.wait(soon); code != 0 {
		t.Errorf("exit code %d after SIGINT, want 0", code)
	}
}

// trap is a server that counts who connects.
func trap(t *testing.T) (address string, connected *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connected = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected.Add(1)
			_ = conn.Close() // it only counts
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String(), connected
}

func wrongConfiguration(t *testing.T, bins programs) {
	address, connected := trap(t)
	good := "WEIR_POSTGRES_URL=postgres://app@" + address + "/db"
	for name, env := range map[string][]string{
		"a duration without a unit": {good, "WEIR_TIMING_LEASE=15"},
		"an unknown variable":       {good, "WEIR_TIMNG_LEASE=15s"},
		"no database":               {},
		"a broken URL":              {"WEIR_POSTGRES_URL=postgres://app@" + address + ":x/db"},
		"a file that is not there":  {good, "WEIR_CONFIG=/nowhere/weir.yaml"},
	} {
		for _, program := range []string{"worker", "sweeper"} {
			p := bins.run(t, program, environ(env...))
			if p.code != 2 || !strings.HasPrefix(p.stderr.String(), "weir: configuration:\n") {
				t.Errorf("%s: %s ended with %d: %s", name, program, p.code, p.stderr.String())
			}
		}
	}
	if p := bins.run(t, "worker", environ(good), "--frob"); p.code != 2 {
		t.Errorf("an unknown flag: exit code %d, want 2", p.code)
	}
	if n := connected.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

func flags(t *testing.T, bins programs) {
	address, connected := trap(t)
	env := environ("WEIR_POSTGRES_URL=postgres://app@" + address + "/db")
	for flag, want := range map[string]string{"--check-config": "configuration is good", "--version": "weir-worker ", "--help": "usage: "} {
		p := bins.run(t, "worker", env, flag)
		if p.code != 0 || !strings.HasPrefix(p.stdout.String(), want) || p.stderr.String() != "" {
			t.Errorf("%s: %d, %q, %q", flag, p.code, p.stdout.String(), p.stderr.String())
		}
	}
	if n := connected.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

func notInstalled(t *testing.T, bins programs) {
	for _, program := range []string{"worker", "sweeper"} {
		p := bins.run(t, program, append(surroundings(t), "WEIR_POSTGRES_SCHEMA=check"))
		if p.code != 1 || !strings.Contains(p.stderr.String(), "is not installed\n-> run: weir migrate up") {
			t.Errorf("%s ended with %d: %s", program, p.code, p.stderr.String())
		}
	}
}

func portTaken(t *testing.T, bins programs) {
	address, _ := trap(t)
	p := bins.run(t, "worker", append(surroundings(t), "WEIR_WORKER_HTTP_LISTEN="+address))
	if p.code != 1 || !strings.Contains(p.stderr.String(), "weir: worker.http.listen: ") || !strings.Contains(p.stderr.String(), "-> set worker.http.listen") {
		t.Errorf("ended with %d: %s", p.code, p.stderr.String())
	}
}

func redisAway(t *testing.T, bins programs) {
	address, _ := trap(t) // it hangs up at once
	env := append(surroundings(t), "WEIR_REDIS_URL=redis://"+address+"/0")
	worker := bins.start(t, "worker", env)
	worker.awaitReady()
	if got := bins.run(t, "weir", env, "enqueue", "echo", "7", "--wait=20s"); got.stdout.String() != "7\n" {
		t.Errorf("weir enqueue printed %q, %q", got.stdout.String(), got.stderr.String())
	}
	if _, body := worker.get("/readyz"); !strings.Contains(body, "redis: away") {
		t.Errorf("/readyz is %q, want Redis mentioned", body)
	}
	worker.close()
	if n := strings.Count(worker.stderr.String(), "\n"); n > 15 {
		t.Errorf("the log has %d lines about a Redis that is away", n)
	}
}

func behindPooler(t *testing.T, bins programs) {
	direct := testenv.Postgres(t)
	pooled := testenv.PgBouncer(t, direct)
	env := environ("WEIR_NAMESPACE="+testenv.Namespace(t), "WEIR_POSTGRES_URL="+pooled, "WEIR_POSTGRES_POOLER=transaction", "WEIR_POSTGRES_LEASE_URL="+direct)
	worker, sweeper := bins.start(t, "worker", env), bins.start(t, "sweeper", env)
	worker.awaitReady()
	sweeper.awaitReady()
	if got := bins.run(t, "weir", env, "enqueue", "echo", `"pooled"`, "--wait=20s"); got.stdout.String() != "\"pooled\"\n" {
		t.Errorf("weir enqueue printed %q, %q", got.stdout.String(), got.stderr.String())
	}
	worker.close()
	sweeper.close()
}

func endsWhileWaiting(t *testing.T, bins programs) {
	address, _ := trap(t)
	worker := bins.start(t, "worker", environ("WEIR_POSTGRES_URL=postgres://app@"+address+"/db"))
	worker.awaitLog("waiting for postgres")
	worker.close()
}

// withPassword puts a password into a URL.
func withPassword(t *testing.T, text, user, password string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if u.User != nil && u.User.Username() != "" {
		user = u.User.Username()
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}
