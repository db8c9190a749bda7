package sweeper

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

func named(names ...string) (out []pgstore.Partition) {
	for _, name := range names {
		parent, from, to, _ := pgstore.ParsePartition(name)
		out = append(out, pgstore.Partition{Parent: parent, Name: name, From: from, To: to})
	}
	return append(out, pgstore.Partition{Parent: "jobs", Name: "jobs_default"})
}

func hours(day string, from, to int) (out []string) {
	for h := from; h <= to; h++ {
		out = append(out, "jobs_"+day+string([]byte{'0' + byte(h/10), '0' + byte(h%10)}))
	}
	return out
}

func TestPartitionsAheadAreThoseThatAreMissing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 14, 5, 59, 0, time.UTC)
	cases := map[string]struct {
		existing []string
		width    pgstore.Width
		ahead    int
		want     []string
	}{
		"none is there":        {nil, pgstore.Day, 2, []string{"jobs_20261130", "jobs_20261201", "jobs_20261202"}},
		"all are there":        {[]string{"jobs_20261130", "jobs_20261201"}, pgstore.Day, 1, nil},
		"another parent's":     {[]string{"dead_20261130"}, pgstore.Day, 1, []string{"jobs_20261130", "jobs_20261201"}},
		"a gap":                {[]string{"jobs_2026113014", "jobs_2026113016"}, pgstore.Hour, 2, []string{"jobs_2026113015"}},
		"hours within a day":   {[]string{"jobs_20261130"}, pgstore.Hour, 10, []string{"jobs_2026120100"}},
		"a day over its hours": {hours("20261130", 13, 20), pgstore.Day, 1, append(hours("20261130", 21, 23), "jobs_20261201")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range missing(named(c.existing...), "jobs", c.width, c.ahead, now) {
				got = append(got, p.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %s, want %s", strings.Join(got, " "), strings.Join(c.want, " "))
			}
		})
	}
}

func TestWorkersAreNotWokenForEverForWhatNobodyTakes(t *testing.T) {
	t.Parallel()
	var in insist
	now := time.Now()
	start := now
	stuck := []pgstore.DueQueue{{Queue: "q", Due: 3, Least: now.Add(-time.Minute)}}
	wakes := 0
	for range 600 / 5 {
		wakes += len(in.pick(stuck, now))
		now = now.Add(5 * time.Second)
	}
	if wakes < 5 || wakes > 15 {
		t.Errorf("10 minutes: got %d wakes for the same rows, want about one a minute", wakes)
	}
	for what, moving := range map[string]pgstore.DueQueue{
		"a later first": {Queue: "q", Due: 3, Least: start}, "fewer": {Queue: "q", Due: 2, Least: stuck[0].Least},
	} {
		if len(in.pick([]pgstore.DueQueue{moving}, now)) != 1 {
			t.Errorf("%s: rows that move are not announced at once", what)
		}
		in.pick(stuck, now)
	}
	in.forget(nil)
	if len(in.pick(stuck, now)) != 0 {
		t.Error("what others were not told of is announced again")
	}
	for due := 4; due < 10; due++ { // a pile that grows
		got := in.pick([]pgstore.DueQueue{{Queue: "q", Due: due, Least: stuck[0].Least}}, now)
		if len(got) != 1 || got[0].Due != 1 {
			t.Errorf("one more row: announced %+v, want one job", got)
		}
	}
	stuck[0].Due = 9
	in.forget(stuck)
	if len(in.pick(stuck, now)) != 1 {
		t.Error("what was told to nobody counts as told")
	}
	if len(in.pick(stuck, now.Add(stragglersEvery-time.Millisecond))) != 1 {
		t.Error("the round after the first is skipped when it begins a millisecond early")
	}
}

func TestWhatRedisDidNotTakeIsNotTold(t *testing.T) {
	t.Parallel()
	pool, ns := testenv.Schema(t)
	nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = nobody.Close() })
	c, err := client.New(pool, client.Config{Namespace: ns, Redis: nobody})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	worker := pgstore.Session{ID: c.IDs().New(), Role: "worker", Lease: time.Minute, Host: "h", Queues: []string{"q"}, Kinds: []string{"k"}}
	if _, err := c.Store().OpenSession(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(t.Context(), job.Raw{Name: "k"}, job.Options{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), fmt.Sprintf("UPDATE %s.live SET ready_at = ready_at - interval '1 hour'", ns)); err != nil {
		t.Fatal(err)
	}
	s, err := New(c, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if queues, err := s.slow.Stragglers(t.Context(), stragglerAge, wakeLimit); len(queues) != 1 || err != nil {
		t.Fatalf("%d queues have stragglers, want 1: %v", len(queues), err)
	}
	if n, err := s.RunDuty(t.Context(), "stragglers"); n != 0 || err != nil {
		t.Errorf("announced %d, %v", n, err)
	}
	if told := len(s.insist.queues); told != 0 {
		t.Errorf("%d queues count as told", told)
	}
}

func TestADutyIsPacedByHowDearItsLooksAreAndNotByOneThatWasSlow(t *testing.T) {
	t.Parallel()
	d := &duty{every: 2 * time.Second, pace: 20, eager: true}
	for i, run := range []struct {
		took  time.Duration
		n     int
		least time.Duration // a tenth more or less
	}{
		{time.Second, 0, 2 * time.Second},             // the first: nothing is known yet
		{time.Millisecond, 0, 2 * time.Second},        //
		{time.Second, 0, 2 * time.Second},             // one alone
		{time.Second, 0, 20 * time.Second},            // a second one: so dear are they
		{500 * time.Millisecond, 0, 10 * time.Second}, //
		{3 * time.Second, 7, 2 * time.Second},         // it repaired
		{time.Second, 0, 2 * time.Second},             //
	} {
		if got := d.wait(run.took, run.n, false); got < run.least*9/10 || got > run.least*11/10 {
			t.Errorf("run %d took %v and found %d: the next comes after %v, want about %v", i, run.took, run.n, got, run.least)
		}
	}
}
