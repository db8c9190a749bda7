package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// client returns a client of the deployment.
func (c *cli) client() *client.Client {
	c.t.Helper()
	namespace := ""
	for _, line := range c.env {
		if v, ok := strings.CutPrefix(line, "WEIR_NAMESPACE="); ok {
			namespace = v
		}
	}
	q, err := client.New(testenv.Pool(c.t, testenv.Postgres(c.t)), client.Config{Namespace: namespace})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(q.Close)
	return q
}

func TestAJobThatWaitsForAKeyIsExplained(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	c.work()
	holder := strings.TrimSpace(c.want(exitDone, "enqueue", "sleep", `{"ms": 600000}`, "--key", "account:42", "--timeout", "20m"))
	testenv.Eventually(t, 20*time.Second, func() bool {
		return strings.Contains(c.want(exitDone, "jobs", "show", holder), "running")
	}, "the first job does not start")
	waiting := strings.TrimSpace(c.want(exitDone, "enqueue", "sleep", `{"ms": 1}`, "--key", "account:42", "--rate", "stripe=100/s*3", "--limit", "t=5"))
	testenv.Eventually(t, 20*time.Second, func() bool {
		return strings.Contains(c.want(exitDone, "jobs", "show", waiting), "blocked")
	}, "the second job is not blocked")
	out := c.want(exitDone, "explain", strings.ToLower(waiting))
	for _, want := range []string{
		waiting + "  sleep  blocked\n", "queue default  priority 5  attempt 0 of 25\n", " on  account:42  (limit 1)\n", "held by  " + holder + " sleep\n",
		", running ", "timeout in ", "lease ", "line     1st of 1\n", "lock  t (limit 5): 0 holders", "rate  stripe (100 per 1s, weight 3): open\n",
		"1 worker serves its queue, 1 of them know its kind\n", "what you can do:  weir jobs cancel " + holder + "\n", "weir keys show account:42\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("explain does not say %q:\n%s", want, out)
		}
	}
	if out := c.want(exitDone, "explain", holder); !strings.Contains(out, "running for ") || !strings.Contains(out, "lock  account:42 (limit 1): it has it") {
		t.Errorf("explain of the holder:\n%s", out)
	}
	if out := c.want(exitDone, "keys", "show", "account:42"); !strings.Contains(out, "limit 1   holders 1   waiting 1   ") || !strings.Contains(out, "slot 0   "+holder) || !strings.Contains(out, "line 1   "+waiting) {
		t.Errorf("keys show:\n%s", out)
	}
	if out := c.want(exitDone, "explain", "--key", "account:42"); !strings.Contains(out, "slot 0   "+holder) {
		t.Errorf("explain --key:\n%s", out)
	}
	if out := c.want(exitDone, "keys", "list"); !strings.Contains(out, "account:42    1     0     1\n") {
		t.Errorf("keys list:\n%s", out)
	}
	if out := c.want(exitDone, "explain", "--queue", "default"); !strings.Contains(out, "1 job waits for keys that others have") {
		t.Errorf("explain --queue:\n%s", out)
	}
	if out := c.want(exitDone, "jobs", "list", "--key", "stripe"); !strings.Contains(out, waiting) || strings.Contains(out, holder) {
		t.Errorf("jobs list --key:\n%s", out)
	}
	if out := c.want(exitDone, "jobs", "show", waiting); !strings.Contains(out, "key       stripe (rate 100 per 1s, weight 3)\n") {
		t.Errorf("jobs show:\n%s", out)
	}
	c.want(exitDone, "limits", "set", "account:*", "2") // and it starts
	testenv.Eventually(t, 20*time.Second, func() bool {
		return strings.Contains(c.want(exitDone, "explain", waiting), "completed")
	}, "the second job does not start with the limit raised")
	c.want(exitDone, "jobs", "cancel", holder)
}

func TestLimitsAreSetShownAndTakenAway(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	if out := c.want(exitDone, "limits", "list"); out != "no entry: what jobs say themselves counts\n" {
		t.Errorf("limits list: %s", out)
	}
	c.want(exitDone, "limits", "set", "tenant:*", "3")
	c.want(exitDone, "limits", "set", "--rate", "stripe", "100/s")
	c.want(exitDone, "limits", "set", "--exact", "star*", "0")
	if _, err := c.client().SyncLimits(context.Background(), []client.Limit{{Key: "filed", N: 1}}, []client.QueueLimit{{Name: "filed", N: 1}}); err != nil {
		t.Fatal(err)
	}
	want := "of    name     limit\nkey   filed    1           from config\nkey   star*    0\nkey   tenant:*  3\nrate  stripe   100 per 1s\n"
	if out := c.want(exitDone, "limits", "list"); strings.Join(strings.Fields(out), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("limits list:\n%swant\n%s", out, want)
	}
	for _, args := range [][]string{{"limits", "set", "filed", "2"}, {"limits", "unset", "filed"}, {"queues", "limit", "filed", "--concurrency", "2"}, {"queues", "limit", "filed", "--concurrency", "none"}} {
		if r := c.do(args...); r.code != exitRefused || !strings.Contains(r.err, "--override") {
			t.Errorf("weir %v: %d %s, want it refused", args, r.code, r.err)
		}
	}
	c.want(exitDone, "limits", "set", "filed", "2", "--override")
	if out := c.want(exitDone, "limits", "list"); !strings.Contains(out, "overrides config") {
		t.Errorf("limits list:\n%s", out)
	}
	c.want(exitDone, "limits", "unset", "filed", "tenant:*")
	c.want(exitDone, "limits", "unset", "--exact", "star*")
	c.want(exitDone, "limits", "unset", "--rate", "stripe")
	c.want(exitNotFound, "limits", "unset", "stripe")
	for _, args := range []string{"limits set a", "limits set a x", "limits set a -- -1", "limits set a 1/s", "limits set --rate a 5", "limits set --rate a 0/s", "limits set --rate a 1/0s",
		"limits set a 100001", "limits unset", "queues limit --concurrency 1", "queues limit a --concurrency 0", "queues limit a --concurrency x", "queues limit a --rate 5",
		"queues limit a --rate 0/s", "explain", "explain a b", "explain x", "explain --queue q --key k", "explain --key=", "keys list --limit 0", "keys show", "enqueue k --key=",
		"enqueue k --limit a", "enqueue k --limit a=x", "enqueue k --limit a=0", "enqueue k --rate a", "enqueue k --rate a=1", "enqueue k --rate a=1/s*x", "enqueue k --rate a=1/s*2",
		"enqueue k --key a --no-timeout", "enqueue k --key a --limit a=2"} {
		c.want(exitUsage, strings.Fields(args)...)
	}
	c.want(exitNotFound, "explain", new(job.IDs).New().String())
}

func TestAQueueIsLimitedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	if out := c.want(exitDone, "queues", "limit"); out != "no queue has a limit\n" {
		t.Errorf("queues limit: %s", out)
	}
	for _, step := range []struct{ args, want string }{
		{"mail --concurrency 20 --rate 50/s", "mail 20 0 50 per 1s"},
		{"mail --rate 5/250ms", "mail 20 0 5 per 250ms"}, // what is not named stays
		{"mail --concurrency none", "mail - 0 5 per 250ms"},
		{"mail --concurrency 7 --rate none", "mail 7 0 -"},
		{"", "mail 7 0 -"},
		{"mail --concurrency none", "queue mail no limit"},
		{"mail --rate none", "queue mail no limit"}, // as it is: no error
	} {
		out := c.want(exitDone, append([]string{"queues", "limit"}, strings.Fields(step.args)...)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if got := strings.Join(strings.Fields(lines[len(lines)-1]), " "); got != step.want {
			t.Errorf("queues limit %s: got %q, want %q", step.args, got, step.want)
		}
	}
}

func TestWhatIsShownOfKeysFitsAndIsSafe(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	long := strings.Repeat("long-name.", 12)
	name := nasty + strings.Repeat("é", 100)
	id := strings.TrimSpace(c.want(exitDone, "enqueue", long, "--queue", long, "--key", name, "--limit", long+"=99999", "--rate", name+"=100000/24h*100000"))
	c.want(exitDone, "limits", "set", name, "5")
	c.want(exitDone, "limits", "set", "--rate", nasty+"*", "99999/24h")
	c.want(exitDone, "queues", "limit", long, "--concurrency", "99999", "--rate", "99999/24h")
	c.want(exitDone, "queues", "pause", long)
	q := c.client()
	ctx := context.Background()
	_, err := q.Pool().Exec(ctx, `UPDATE "`+q.Namespace()+`".live SET state = 2, blocked_on = keys[1], expires_at = ready_at + interval '1 day'`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Pool().Exec(ctx, `INSERT INTO "`+q.Namespace()+`".locks SELECT keys[1], 3, id, fence, clock_timestamp() + interval '1 h' FROM "`+q.Namespace()+`".live`)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"explain", id}, {"explain", "--key", name}, {"explain", "--queue", long}, {"keys", "list"}, {"keys", "show", name}, {"keys", "show", long}, {"limits", "list"}, {"queues", "limit"},
		{"queues", "limit", long}, {"queues", "limit", "no"}, {"jobs", "show", id, "--json"}, {"keys", "list", "--json"}, {"explain", id, "--json"}, {"limits", "list", "--json"},
		{"explain", "--queue", long, "--json"}, {"explain", "--key", name, "--json"}, {"queues", "limit", "--json"}, {"limits", "set", "--json", name, "6"}, {"limits", "unset", "--json", name},
	} {
		out := c.want(exitDone, args...)
		if r, bad := control(out); bad {
			t.Errorf("weir %q prints %q", args, r)
		}
		for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
			var object map[string]any
			if args[len(args)-1] == "--json" || strings.Contains(strings.Join(args, " "), "--json") {
				if err := json.Unmarshal([]byte(line), &object); err != nil {
					t.Errorf("weir %q: %v in %q", args, err, line)
				}
			} else if n := len([]rune(line)); n > 80 {
				t.Errorf("weir %q: %d columns: %s", args, n, line)
			}
		}
	}
}
