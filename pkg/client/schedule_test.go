package client_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func (r rig) sync(tb testing.TB, owner string, version int64, list ...client.Schedule) {
	tb.Helper()
	if err := r.SyncSchedules(tb.Context(), owner, list, client.SyncOptions{Version: version}); err != nil {
		tb.Fatal(err)
	}
}

func (r rig) schedule(tb testing.TB, name string) client.ScheduleInfo {
	tb.Helper()
	s, err := r.Schedule(tb.Context(), name)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// names returns the names of all schedules.
func (r rig) names(tb testing.TB) string {
	tb.Helper()
	list, err := r.Schedules(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

func TestABadScheduleIsRefusedByItsFieldBeforeAnySQL(t *testing.T) {
	t.Parallel()
	c := nowhere(t) // any statement would fail otherwise
	good := client.Schedule{Name: "good", Every: time.Minute, Args: welcome{}}
	many := map[string]string{}
	for i := range 31 {
		many[fmt.Sprint(i)] = "x"
	}
	for field, edits := range map[string][]func(*client.Schedule){
		"Name": {
			func(s *client.Schedule) { s.Name = "" }, func(s *client.Schedule) { s.Name = strings.Repeat("n", 129) },
			func(s *client.Schedule) { s.Name = "a\x00b" }, func(s *client.Schedule) { s.Name = "\xff" }, func(s *client.Schedule) { s.Name = "good" },
		},
		"Cron": {
			func(s *client.Schedule) { s.Every = 0 }, func(s *client.Schedule) { s.Every, s.Cron = 0, "0 0 30 2 *" },
			func(s *client.Schedule) { s.Every, s.Cron = 0, "TZ=" },
		},
		"Zone":        {func(s *client.Schedule) { s.Every, s.Cron, s.Zone = 0, "@daily", "No/Where" }, func(s *client.Schedule) { s.Zone = "UTC" }},
		"Every":       {func(s *client.Schedule) { s.Every = time.Millisecond }, func(s *client.Schedule) { s.Every = -time.Hour }, func(s *client.Schedule) { s.Cron = "@daily" }},
		"FirstIn":     {func(s *client.Schedule) { s.FirstIn = -1 }, func(s *client.Schedule) { s.FirstIn = 1<<63 - 1 }, func(s *client.Schedule) { s.Every, s.Cron, s.FirstIn = 0, "@daily", 1 }},
		"Misfire":     {func(s *client.Schedule) { s.Misfire = "twice" }},
		"MisfireCap":  {func(s *client.Schedule) { s.MisfireCap = -1 }, func(s *client.Schedule) { s.MisfireCap = 1001 }},
		"args":        {func(s *client.Schedule) { s.Args = nil }, func(s *client.Schedule) { s.Args = (*welcome)(nil) }},
		"kind":        {func(s *client.Schedule) { s.Args = job.Raw{} }},
		"payload":     {func(s *client.Schedule) { s.Args = job.Raw{Name: "k", Payload: []byte("{")} }},
		"Queue":       {func(s *client.Schedule) { s.Options.Queue = "a\nb" }},
		"ID":          {func(s *client.Schedule) { s.Options.ID = c.IDs().New() }},
		"ScheduledAt": {func(s *client.Schedule) { s.Options.ScheduledAt = time.Now() }},
		"Metadata":    {func(s *client.Schedule) { s.Options.Metadata = many }},
	} {
		for i, edit := range edits {
			bad := good
			bad.Name = "bad"
			edit(&bad)
			err := c.SyncSchedules(t.Context(), "owner", []client.Schedule{good, bad})
			var fault *job.FieldError
			if !errors.As(err, &fault) || fault.Field != field || fault.Index != 1 {
				t.Errorf("%s %d: got %v", field, i, err)
			}
		}
	}
	for field, err := range map[string]error{
		"owner":     c.SyncSchedules(t.Context(), "", nil),
		"schedules": c.SyncSchedules(t.Context(), "o", make([]client.Schedule, client.MaxSchedules+1)),
		"Version":   c.SyncSchedules(t.Context(), "o", nil, client.SyncOptions{Version: -1}),
	} {
		var fault *job.FieldError
		if !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// B56: what a deployment declares is what there is: changed, in another zone, removed, renamed.
func TestSchedulesFollowTheirDeclaration(t *testing.T) {
	t.Parallel()
	c := open(t)
	entry := client.Schedule{Name: "e", Cron: "*/1 * * * *", Args: welcome{UserID: 7}}
	c.sync(t, "app", 1, entry)
	first := c.schedule(t, "e")
	if first.NextAt.Second() != 0 || !first.NextAt.After(first.Now) || first.NextAt.Sub(first.Now) > time.Minute {
		t.Errorf("the first tick is at %v, now is %v", first.NextAt, first.Now)
	}
	entry.Cron = "0 0 1 1 *"
	c.sync(t, "app", 2, entry)
	utc := c.schedule(t, "e").NextAt
	entry.Zone = "Europe/Rome"
	c.sync(t, "app", 3, entry)
	if got := c.schedule(t, "e").NextAt; !got.Equal(utc.Add(-time.Hour)) {
		t.Errorf("in Rome it is due at %v, in UTC at %v", got, utc)
	}
	c.sync(t, "app", 4)
	if got := c.names(t); got != "" {
		t.Errorf("left: %s", got)
	}
	entry.Name = "f"
	c.sync(t, "app", 5, entry)
	c.sync(t, "app", 4, client.Schedule{Name: "e", Every: time.Hour, Args: welcome{}})
	if got := c.names(t); got != "f" {
		t.Errorf("after an older process: %s", got)
	}
	err := c.SyncSchedules(t.Context(), "another", []client.Schedule{{Name: "g", Every: time.Hour, Args: welcome{}}, entry})
	var fault *job.FieldError
	if !errors.As(err, &fault) || fault.Field != "Name" || fault.Index != 1 || !strings.Contains(fault.Got, `"app"`) || c.names(t) != "f" {
		t.Errorf("another owner's name: %v; %s", err, c.names(t))
	}
	if err := c.ForgetSchedules(t.Context(), "app"); err != nil {
		t.Error(err)
	}
	c.sync(t, "app", 4)
	if got := c.names(t); got != "" {
		t.Errorf("after a rollback: %s", got)
	}
}

// Two owners and two versions of each sync as fast as they can. From when the newer one has spoken, what it says stays.
func TestTwoOwnersAndTwoVersionsDoNotFlap(t *testing.T) {
	t.Parallel()
	c := open(t)
	list := func(owner string, version int) []client.Schedule {
		return []client.Schedule{
			{Name: owner + " both", Every: time.Duration(version) * time.Hour, Args: welcome{UserID: int64(version)}},
			{Name: fmt.Sprint(owner, " only ", version), Cron: "@daily", Args: welcome{}},
		}
	}
	want := "a both a only 2 b both b only 2"
	for _, owner := range []string{"a", "b"} {
		c.sync(t, owner, 1, list(owner, 1)...)
	}
	var newest, stop atomic.Bool
	var wg sync.WaitGroup
	for _, owner := range []string{"a", "b"} {
		for version := 1; version <= 2; version++ {
			for range 2 {
				wg.Go(func() {
					for !stop.Load() {
						if version == 2 && !newest.Load() {
							<-time.After(time.Millisecond) // not deployed yet
							continue
						}
						if err := c.SyncSchedules(t.Context(), owner, list(owner, version), client.SyncOptions{Version: int64(version)}); err != nil {
							t.Error(err)
							return
						}
						<-time.After(rand.N(3 * time.Millisecond))
					}
				})
			}
		}
	}
	if got := c.names(t); got != "a both a only 1 b both b only 1" {
		t.Errorf("before: %s", got)
	}
	for _, owner := range []string{"a", "b"} {
		c.sync(t, owner, 2, list(owner, 2)...)
	}
	newest.Store(true)
	next := c.schedule(t, "a both").NextAt
	looks := 0
	for end := time.Now().Add(pickTime(1500*time.Millisecond, time.Minute)); time.Now().Before(end); looks++ {
		if got := c.names(t); got != want {
			t.Fatalf("look %d: %s, want %s", looks, got, want)
		}
		if s := c.schedule(t, "a both"); s.Rhythm.Every != 2*time.Hour || !s.NextAt.Equal(next) || s.Fence != 1 || s.Version != 2 {
			t.Fatalf("look %d: %+v", looks, s)
		}
	}
	stop.Store(true)
	wg.Wait()
	if looks < 20 {
		t.Errorf("only %d looks", looks)
	}
}

// pickTime returns the first time, the second when tests run at full length.
func pickTime(short, full time.Duration) time.Duration {
	if os.Getenv("WEIR_TEST_LONG") == "1" {
		return full
	}
	return short
}

func TestASyncWithoutAnAnswerIsAnError(t *testing.T) {
	t.Parallel()
	if err := nowhere(t).SyncSchedules(t.Context(), "o", nil); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

func TestASchedulesJobIsRunByHandAndItsTicksStay(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *client.Config) { cfg.Actor = "ada" })
	c.sync(t, "app", 1, client.Schedule{Name: "s", Every: time.Hour, Args: welcome{UserID: 7}, Options: job.Options{Queue: "mail"}, Disabled: true})
	before := c.schedule(t, "s")
	e, err := c.RunSchedule(t.Context(), "s")
	if err != nil || e.Duplicate {
		t.Fatal(e, err)
	}
	row, err := c.Job(t.Context(), e.ID)
	if err != nil || row.State != job.Available || row.Queue != "mail" || row.Kind != "mail.welcome" || string(row.Payload) != `{"user_id":7}` ||
		row.Metadata[client.MetadataSchedule] != "s" || row.Metadata[client.MetadataTick] != "by hand" {
		t.Errorf("job %+v, %v", row, err)
	}
	if after := c.schedule(t, "s"); !after.NextAt.Equal(before.NextAt) || !after.LastAt.IsZero() {
		t.Errorf("schedule %+v", after)
	}
	if n := c.count(t, "actions", "who = 'ada' AND verb = 'run' AND target = 'schedule s'"); n != 1 {
		t.Errorf("%d actions", n)
	}
}

func TestASchedulesSwitchIsForHands(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *client.Config) { cfg.Actor = "ada" })
	c.sync(t, "app", 1, client.Schedule{Name: "s", Every: time.Minute, Args: welcome{}}, client.Schedule{Name: "cron", Cron: "@hourly", Args: welcome{}})
	c.exec(t, "UPDATE %s.schedules SET next_at = date_trunc('hour', now()) - interval '1 day'")
	for _, name := range []string{"s", "cron"} {
		for range 2 {
			if err := c.DisableSchedule(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if s := c.schedule(t, name); s.Enabled() || !s.Declared {
			t.Errorf("%s: %+v", name, s)
		}
		for range 2 {
			if err := c.EnableSchedule(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if s := c.schedule(t, name); !s.Enabled() || !s.NextAt.After(s.Now) || s.NextAt.Second() != 0 || s.NextAt.Sub(s.Now) > time.Hour {
			t.Errorf("%s: on, next %v, now %v", name, s.NextAt, s.Now)
		}
	}
	if n := c.count(t, "actions", "verb IN ('enable', 'disable')"); n != 4 {
		t.Errorf("%d actions, want one for each change", n)
	}
	if err := c.DeleteSchedule(t.Context(), "s"); err != nil || c.names(t) != "cron" {
		t.Error(err, c.names(t))
	}
	_, missing := c.RunSchedule(t.Context(), "nobody")
	for what, err := range map[string]error{
		"run": missing, "enable": c.EnableSchedule(t.Context(), "nobody"), "disable": c.DisableSchedule(t.Context(), ""),
		"delete": c.DeleteSchedule(t.Context(), "nobody"), "forget": c.ForgetSchedules(t.Context(), "nobody"),
	} {
		if !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
