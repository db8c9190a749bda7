package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/run"
)

// schedule declares schedules as a program would.
func (c *cli) schedule(list ...client.Schedule) {
	c.t.Helper()
	a := &app{env: c.env}
	l, err := a.load()
	if err != nil {
		c.t.Fatal(err)
	}
	cl, closeAll, err := run.Open(l.Config, run.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer closeAll()
	if err := cl.SyncSchedules(c.t.Context(), "app", list, client.SyncOptions{Version: 7}); err != nil {
		c.t.Fatal(err)
	}
}

func TestSchedulesAreListedShownRunAndSwitched(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	if out := c.want(exitDone, "schedules", "list"); out != "no schedule is declared\n" {
		t.Errorf("an empty list: %s", out)
	}
	c.schedule(
		client.Schedule{Name: "nightly", Cron: "0 3 * * *", Zone: "Europe/Berlin", Args: job.Raw{Name: "echo", Payload: []byte(`{"n":1}`)}},
		client.Schedule{Name: "beat", Every: time.Minute, Args: job.Raw{Name: "echo"}, Misfire: client.MisfireAll},
		client.Schedule{Name: "\u202enasty", Every: time.Hour, Args: job.Raw{Name: "echo"}, Disabled: true},
	)
	out := c.want(exitDone, "schedules", "list")
	for _, part := range []string{"nightly", "0 3 * * * Europe/…", "every 1m0s", "off", "app", "echo"} {
		if !strings.Contains(out, part) {
			t.Errorf("the list does not show %q:\n%s", part, out)
		}
	}
	if strings.Contains(out, "\u202e") {
		t.Errorf("the list holds what turns the text around: %q", out)
	}
	out = c.want(exitDone, "schedules", "show", "nightly")
	for _, part := range []string{"nightly  echo  enabled", "when     0 3 * * * Europe/Berlin", "misfire  once", "queue    default", "owner    app, version 7", `payload  {"n":1}`, "next     20"} {
		if !strings.Contains(out, part) {
			t.Errorf("it does not show %q:\n%s", part, out)
		}
	}
	c.want(exitDone, "schedules", "disable", "nightly", "beat")
	if out := c.want(exitDone, "schedules", "list"); !strings.Contains(out, "! nightly was disabled by hand -> weir schedules enable nightly") {
		t.Errorf("the list does not say what was done by hand:\n%s", out)
	}
	c.want(exitDone, "schedules", "enable", "nightly")
	id := strings.TrimSpace(c.want(exitDone, "schedules", "run", "nightly"))
	if out := c.want(exitDone, "jobs", "show", id); !strings.Contains(out, "weir_schedule=nightly") {
		t.Errorf("the job does not tell whose it is:\n%s", out)
	}
	c.want(exitDone, "schedules", "rollback", "app")
	c.want(exitDone, "schedules", "delete", "beat")
	var got struct {
		Name    string
		Enabled bool
		ByHand  bool      `json:"by_hand"`
		NextAt  time.Time `json:"next_at"`
	}
	lines := strings.Split(strings.TrimSpace(c.want(exitDone, "schedules", "list", "--json")), "\n")
	if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &got) != nil || got.Name != "nightly" || !got.Enabled || got.ByHand || got.NextAt.IsZero() {
		t.Errorf("as JSON: %q, %+v", lines, got)
	}
	for _, args := range [][]string{{"run", "nobody"}, {"show", "nobody"}, {"enable", "nobody"}, {"delete", "beat"}, {"rollback", "nobody"}} {
		if r := c.do(append([]string{"schedules"}, args...)...); r.code != exitNotFound || r.out != "" {
			t.Errorf("%v: code %d, %s%s", args, r.code, r.out, r.err)
		}
	}
	c.want(exitUsage, "schedules", "run")
	c.want(exitUsage, "schedules", "lst")
}

func TestAScheduleThatNobodyFiresIsMarked(t *testing.T) {
	t.Parallel()
	c := &client.ScheduleInfo{Name: "s", Declared: true, Now: time.Now()}
	for late, want := range map[time.Duration]bool{0: false, 5 * time.Second: false, time.Minute: true} {
		c.NextAt = c.Now.Add(-late)
		if got := strings.Contains(scheduleNote(c), "overdue"); got != want {
			t.Errorf("%v late: %v", late, scheduleNote(c))
		}
	}
	c.Error = "invalid input"
	if got := scheduleNote(c); !strings.Contains(got, "refused") {
		t.Errorf("refused: %s", got)
	}
}

// The sweeper program declares what its configuration says, fires it, and removes what the next configuration leaves out.
func TestTheSweeperFiresTheSchedulesOfItsConfiguration(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.want(exitDone, "migrate", "up")
	c.env = append(c.env, "WEIR_SWEEPER_HTTP_LISTEN=off")
	plain := c.env
	c.env = append(plain, `WEIR_SWEEPER_SCHEDULES=[{name: tick, every: 1s, first_in: 1ms, kind: echo, payload: {n: 1}}, {name: far, cron: "@yearly", kind: echo}]`)
	stop := c.sweep()
	testenv.Eventually(t, 20*time.Second, func() bool {
		return strings.Contains(c.want(exitDone, "jobs", "list", "--kind", "echo"), "echo")
	}, "no tick has become a job")
	if out := c.want(exitDone, "schedules", "list"); !strings.Contains(out, "far") || !strings.Contains(out, "config") {
		t.Errorf("the list:\n%s", out)
	}
	stop()
	c.env = append(plain, `WEIR_SWEEPER_SCHEDULES=[{name: far, cron: "@yearly", kind: echo}]`)
	stop = c.sweep()
	testenv.Eventually(t, 20*time.Second, func() bool {
		out := c.want(exitDone, "schedules", "list")
		return strings.Contains(out, "far") && !strings.Contains(out, "tick")
	}, "what left the list is still there")
	stop()
	c.env = plain
	defer c.sweep()()
	if out := c.want(exitDone, "schedules", "list"); !strings.Contains(out, "far") {
		t.Errorf("a sweeper whose configuration does not speak of schedules has removed some:\n%s", out)
	}
}

// sweep runs a sweeper until the returned function is called.
func (c *cli) sweep() (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	var log bytes.Buffer
	go func() { ended <- run.SweeperMain(ctx, nil, c.env, &log, &log) }()
	return func() {
		c.t.Helper()
		cancel()
		if code := <-ended; code != 0 {
			c.t.Errorf("the sweeper ended with %d: %s", code, log.String())
		}
	}
}
