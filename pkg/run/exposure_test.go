package run_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

const canary = `S3CR3T-p@ss/w#rd?\%zz`

// showsCanary returns the form in which text shows the canary; "" if it does not.
func showsCanary(text string) string {
	for _, form := range []string{canary, url.QueryEscape(canary), url.PathEscape(canary), url.UserPassword("", canary).String()[1:],
		base64.StdEncoding.EncodeToString([]byte(canary))[:24], "S3CR3T"} {
		if strings.Contains(text, form) {
			return form
		}
	}
	return ""
}

func (q *process) mustHide(what string) {
	q.t.Helper()
	texts := map[string]string{"stdout": q.stdout.String(), "stderr": q.stderr.String()}
	if runtime.GOOS == "linux" {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", q.cmd.Process.Pid)) // gone with the process
		texts["its command line"] = string(line)
	}
	for where, text := range texts {
		if form := showsCanary(text); form != "" {
			q.t.Errorf("%s: %s shows %s", what, where, form)
		}
	}
}

func secrets(t *testing.T, bins programs) {
	dead, _ := trap(t)
	postgres := withPassword(t, testenv.Postgres(t), "postgres", canary)
	redis := withPassword(t, testenv.RedisURL(t), "nobody", canary)
	base := []string{"WEIR_LOG_LEVEL=debug", "WEIR_NAMESPACE=" + testenv.Namespace(t)}
	running := bins.start(t, "worker", environ(append(base, "WEIR_POSTGRES_URL="+postgres, "WEIR_REDIS_URL="+redis)...))
	running.awaitReady()
	running.mustHide("a worker that runs")
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/"} {
		if _, body := running.get(path); showsCanary(body) != "" {
			t.Errorf("%s shows the password", path)
		}
	}
	running.close()
	running.mustHide("a worker that ran")
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte("host=127.0.0.1 port=1 user=app password='"+canary), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{
		"a malformed URL":          {"WEIR_POSTGRES_URL=postgres://app:" + canary + "@127.0.0.1:1/db"},
		"a malformed file":         {"WEIR_POSTGRES_URL_FILE=" + file},
		"a wrong port":             {"WEIR_POSTGRES_URL=postgres://app:" + url.QueryEscape(canary) + "@" + dead + "x/db"},
		"a malformed Redis URL":    {"WEIR_POSTGRES_URL=" + postgres, "WEIR_REDIS_URL=rediss://:" + canary + "@h"},
		"a server that hangs up":   {"WEIR_POSTGRES_URL=" + withPassword(t, "postgres://app@"+dead+"/db", "app", canary)},
		"a database that is not":   {"WEIR_POSTGRES_URL=" + strings.Replace(postgres, "/postgres", "/nowhere", 1)},
		"a URL given as a file":    {"WEIR_POSTGRES_URL_FILE=" + postgres},
		"a password as a queue":    {"WEIR_POSTGRES_URL=" + postgres, "WEIR_WORKER_QUEUES=" + postgres},
		"a password as a lifetime": {"WEIR_POSTGRES_URL=" + postgres, "WEIR_TIMING_LEASE=" + postgres},
	} {
		env := environ(append(base, env...)...)
		for _, args := range [][]string{{"config"}, {"config", "--json"}, {"jobs", "list"}, {"migrate", "status"}, {"version"}} {
			bins.run(t, "weir", env, args...).mustHide(name + ": weir " + strings.Join(args, " "))
		}
	}
}

func routes(t *testing.T, bins programs) {
	worker := bins.start(t, "worker", surroundings(t))
	worker.awaitReady()
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if code, _ := worker.get(path); code != http.StatusOK {
			t.Errorf("%s is %d, want 200", path, code)
		}
	}
	for _, path := range []string{"/", "/debug/pprof/", "/debug/vars", "/jobs", "/api/v1/jobs", "/metrics/", "//livez", "/x/../livez", "/..%2flivez", "/favicon.ico"} {
		if code, _ := worker.get(path); code != http.StatusNotFound {
			t.Errorf("%s is %d, want 404", path, code)
		}
	}
	resp, err := http.Post(worker.url("/livez"), "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Access-Control-Allow-Origin") != "" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("POST /livez is %d with headers %v", resp.StatusCode, resp.Header)
	}
	http.DefaultClient.CloseIdleConnections()
	worker.close()
}

// names returns the names of Weir's metrics in a scrape and how many series there are in all.
func names(t *testing.T, body string) (own []string, series int) {
	t.Helper()
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
		line := s.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE weir_"); ok {
			own = append(own, "weir_"+strings.Fields(rest)[0])
		}
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	return own, series
}

func series(t *testing.T, bins programs) {
	pool, namespace := testenv.Schema(t)
	c, err := client.New(pool, client.Config{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	env := environ("WEIR_NAMESPACE="+namespace, "WEIR_POSTGRES_URL="+testenv.Postgres(t))
	worker, sweeper := bins.start(t, "worker", env), bins.start(t, "sweeper", env)
	worker.awaitReady()
	sweeper.awaitReady()
	runEcho := func() {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		e, err := c.Enqueue(ctx, job.Raw{Name: "echo", Payload: []byte("1")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Await[int](ctx, c, e.ID); err != nil {
			t.Fatal(err)
		}
	}
	runEcho()
	count := func(p *process) int { _, body := p.get("/metrics"); _, n := names(t, body); return n }
	before := [2]int{count(worker), count(sweeper)}
	specs := make([]job.Spec, 5000)
	for i := range specs {
		specs[i] = job.Spec{Args: job.Raw{Name: fmt.Sprintf("kind-%d", i)}, Options: job.Options{Queue: fmt.Sprintf("queue-%d", i%2500)}}
		if i%2 == 0 {
			specs[i].Options.Queue = "" // the one that is served
		}
	}
	if _, err := c.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	runEcho()
	// Once the sweeper has looked at all of them.
	testenv.Eventually(t, soon, func() bool {
		_, body := sweeper.get("/metrics")
		return regexp.MustCompile(`weir_sweeper_duty_runs_total\{duty="stragglers"\} ([2-9]|\d\d)`).MatchString(body)
	}, "the sweeper does not look")
	began := time.Now()
	after := [2]int{count(worker), count(sweeper)}
	if took := time.Since(began); took > time.Second {
		t.Errorf("two scrapes took %v", took)
	}
	// The runtime adds buckets and the sweeper none.
	if after[0] > before[0]+5 || after[1] > before[1]+5 || after[0] > 400 {
		t.Errorf("series before and after, worker and sweeper: %v, %v", before, after)
	}
	worker.close()
	sweeper.close()
}

func documented(t *testing.T, bins programs) {
	env := surroundings(t)
	worker, sweeper := bins.start(t, "worker", env), bins.start(t, "sweeper", env)
	worker.awaitReady()
	sweeper.awaitReady()
	bins.run(t, "weir", env, "enqueue", "echo", "--wait=20s")
	var served []string
	for _, p := range []*process{worker, sweeper} {
		_, body := p.get("/metrics")
		own, _ := names(t, body)
		served = append(served, own...)
	}
	slices.Sort(served)
	served = slices.Compact(served)
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(weir_[a-z_]+)").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	for _, name := range served {
		if !slices.Contains(listed, name) {
			t.Errorf("docs/metrics.md does not list %s", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(served, name) {
			t.Errorf("docs/metrics.md lists %s, which nothing serves", name)
		}
	}
	worker.close()
	sweeper.close()
}
