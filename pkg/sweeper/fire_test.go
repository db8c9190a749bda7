package sweeper_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/sweeper"
)

// beat is the job of the tests' schedules.
var beat = job.Raw{Name: "k", Payload: []byte(`{"n": 1}`)}

func (s *site) sync(owner string, list ...client.Schedule) {
	s.Helper()
	for i := range list {
		if list[i].Args == nil {
			list[i].Args = beat
		}
		if list[i].Options.Queue == "" {
			list[i].Options.Queue = "q"
		}
	}
	if err := s.c.SyncSchedules(s.Context(), owner, list, client.SyncOptions{Version: 1}); err != nil {
		s.Fatal(err)
	}
}

// late makes a schedule's next tick lie back.
func (s *site) late(name string, by time.Duration) {
	s.Helper()
	s.exec(`UPDATE weir.schedules SET next_at = date_trunc('second', clock_timestamp()) - $2 * interval '1 ms' WHERE name = $1`, name, by.Milliseconds())
}

// fired returns the ticks of a schedule that became jobs, in order.
func (s *site) fired(name string) []time.Time {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), s.sql(`SELECT (metadata ->> 'weir_tick')::timestamptz FROM weir.jobs
		WHERE metadata ->> 'weir_schedule' = $1 AND metadata ->> 'weir_tick' <> 'by hand' ORDER BY 1`), name)
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	var out []time.Time
	for rows.Next() {
		var at time.Time
		if err := rows.Scan(&at); err != nil {
			s.Fatal(err)
		}
		out = append(out, at)
	}
	return out
}

func (s *site) schedule(name string) client.ScheduleInfo {
	s.Helper()
	info, err := s.c.Schedule(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	return info
}

func TestATickBecomesOneJobThatTellsWhoseItIs(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.sync("test", client.Schedule{Name: "beat", Every: time.Minute, Options: job.Options{Priority: 2, Tags: []string{"x"}, Metadata: map[string]string{"a": "b"}}})
	sw := s.sweeper(sweeper.Config{})
	if n := s.duty(sw, "fire"); n != 0 {
		t.Errorf("%d jobs before the first tick", n)
	}
	s.late("beat", 0)
	due := s.schedule("beat").NextAt
	if n := s.duty(sw, "fire"); n != 1 {
		t.Fatalf("%d jobs, want 1", n)
	}
	if n := s.duty(sw, "fire"); n != 0 {
		t.Errorf("%d jobs more", n)
	}
	rows := s.claim(s.worker(time.Minute), 10)
	if len(rows) != 1 {
		t.Fatalf("%d jobs are claimed", len(rows))
	}
	r := rows[0]
	if string(r.Payload) != `{"n": 1}` || r.Priority != 2 || !slices.Equal(r.Tags, []string{"x"}) || r.Metadata["a"] != "b" ||
		r.Metadata[client.MetadataSchedule] != "beat" || r.Metadata[client.MetadataTick] != due.UTC().Format("2006-01-02T15:04:05.000000Z") {
		t.Errorf("job %+v", r)
	}
	after := s.schedule("beat")
	if !after.NextAt.Equal(due.Add(time.Minute)) || !after.LastAt.Equal(due) || after.LastJob != r.ID {
		t.Errorf("schedule %+v, tick %v", after, due)
	}
	if st := sw.Stats().Schedules; st != (sweeper.ScheduleStats{Fired: 1}) {
		t.Errorf("counts %+v", st)
	}
}

func TestMissedTicksFollowTheirPolicy(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	every := client.Schedule{Every: 10 * time.Second}
	with := func(name string, m client.Misfire, most int) client.Schedule {
		c := every
		c.Name, c.Misfire, c.MisfireCap = name, m, most
		return c
	}
	s.sync("test", with("default", "", 0), with("once", client.MisfireOnce, 0), with("skip", client.MisfireSkip, 0), with("all", client.MisfireAll, 0),
		with("capped", client.MisfireAll, 3), client.Schedule{Name: "skip long", Every: time.Hour, Misfire: client.MisfireSkip},
		client.Schedule{Name: "once long", Every: time.Hour}, client.Schedule{Name: "cron all", Cron: "*/10 * * * * *", Misfire: client.MisfireAll})
	for _, name := range []string{"default", "once", "skip", "all", "capped"} {
		s.late(name, 95*time.Second)
	}
	s.late("skip long", 90*time.Minute)
	s.late("once long", 90*time.Minute)
	s.exec(`UPDATE weir.schedules SET next_at = to_timestamp(floor(extract(epoch FROM clock_timestamp()) / 10) * 10 - 90) WHERE name = 'cron all'`)
	first := map[string]time.Time{}
	var begun time.Time
	for _, i := range mustSchedules(t, s) {
		first[i.Name], begun = i.NextAt, i.Now
	}
	sw := s.sweeper(sweeper.Config{})
	s.duty(sw, "fire")
	for name, want := range map[string]int{"default": 1, "once": 1, "skip": 1, "all": 10, "capped": 3, "skip long": 0, "once long": 1, "cron all": 10} {
		got, now := s.fired(name), s.schedule(name)
		if len(got) != want {
			t.Errorf("%s: %d jobs, want %d: %v", name, len(got), want, got)
		}
		if !now.NextAt.After(begun) {
			t.Errorf("%s: still due at %v", name, now.NextAt)
		}
		every := now.Rhythm.Every
		if every == 0 {
			every = 10 * time.Second
		}
		if off := now.NextAt.Sub(first[name]) % every; off != 0 {
			t.Errorf("%s has left its rhythm by %v", name, off)
		}
		for i := 1; i < len(got); i++ {
			if got[i].Sub(got[i-1]) != every {
				t.Errorf("%s: ticks %v", name, got)
			}
		}
	}
	// 9 each of default, once and skip; 7 of capped; 2 of skip long; 1 of once long.
	if st := sw.Stats().Schedules; st.Missed != 37 || st.Failed != 0 || st.Fired != 27 {
		t.Errorf("counts %+v", st)
	}
}

func mustSchedules(t *testing.T, s *site) []client.ScheduleInfo {
	t.Helper()
	list, err := s.c.Schedules(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// B58, and what the firing owes to the others: what is wrong with one schedule stops none of the rest, however often it is tried.
func TestAScheduleThatCannotBeFiredStopsNoOther(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	names := []string{"a refused", "b zone", "c cron", "d good", "e trigger", "f good"}
	for _, n := range names {
		s.sync(n, client.Schedule{Name: n, Every: time.Hour})
		s.late(n, 0)
	}
	s.exec(`UPDATE weir.schedules SET job = jsonb_set(job, '{payload}', '"{"') WHERE name = 'a refused'`)
	s.exec(`UPDATE weir.schedules SET every_ms = NULL, cron = '* * * * *', zone = 'No/Where' WHERE name = 'b zone'`)
	s.exec(`UPDATE weir.schedules SET every_ms = NULL, cron = '0 0 30 2 *' WHERE name = 'c cron'`)
	s.exec(`UPDATE weir.schedules SET job = jsonb_set(job, '{kind}', '"forbidden"') WHERE name = 'e trigger'`)
	s.exec(`CREATE FUNCTION weir.forbid() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this kind'; END $$`)
	s.exec(`CREATE TRIGGER forbid BEFORE INSERT ON weir.jobs FOR EACH ROW WHEN (NEW.kind = 'forbidden') EXECUTE FUNCTION weir.forbid()`)
	sw := s.sweeper(sweeper.Config{})
	if n := s.duty(sw, "fire"); n != 2 {
		t.Errorf("%d jobs, want those of the two good ones", n)
	}
	for range 3 {
		if n := s.duty(sw, "fire"); n != 0 {
			t.Errorf("%d jobs more", n)
		}
	}
	if st := sw.Stats().Schedules; st != (sweeper.ScheduleStats{Fired: 2, Failed: 4}) {
		t.Errorf("counts %+v: each trouble counts once", st)
	}
	for name, want := range map[string]string{"a refused": "invalid input syntax for type json", "e trigger": "not this kind", "d good": ""} {
		if i := s.schedule(name); i.Error != want || !i.NextAt.After(i.Now) {
			t.Errorf("%s: error %q, next %v", name, i.Error, i.NextAt)
		}
	}
	for _, name := range []string{"b zone", "c cron"} {
		if i := s.schedule(name); i.NextAt.After(i.Now) {
			t.Errorf("%s has moved on: another sweeper might know it", name)
		}
	}
	s.exec(`UPDATE weir.schedules SET zone = '' WHERE name = 'b zone'`)
	if n := s.duty(sw, "fire"); n != 1 {
		t.Errorf("%d jobs, want that of the schedule that is in order again", n)
	}
}

// More schedules than a page, many of them broken and first in line: the others fire all the same.
func TestManySchedulesFireInPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	var list []client.Schedule
	for i := range 750 {
		list = append(list, client.Schedule{Name: fmt.Sprintf("s%03d", i), Every: time.Hour})
	}
	s.sync("test", list...)
	s.exec(`UPDATE weir.schedules SET next_at = clock_timestamp() - CASE WHEN name < 's300' THEN interval '2 s' ELSE interval '1 s' END`)
	s.exec(`UPDATE weir.schedules SET every_ms = NULL, cron = '* * * * *', zone = 'No/Where' WHERE name < 's300'`)
	if n := s.duty(s.sweeper(sweeper.Config{}), "fire"); n != 450 {
		t.Errorf("%d jobs, want 450", n)
	}
}

// B59: a tick's identity is the schedule's name and its time; kind, queue and payload have no say.
func TestSchedulesOfOneKindQueueAndTickEachGetTheirJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	want := []string{`{"n":1}`, `{"n":1}`, `{"n":2}`, `{"n":3}`}
	var list []client.Schedule
	for i, payload := range want {
		list = append(list, client.Schedule{Name: fmt.Sprint("s", i), Every: time.Hour, Args: job.Raw{Name: "k", Payload: []byte(payload)}})
	}
	s.sync("test", list...)
	s.exec(`UPDATE weir.schedules SET next_at = date_trunc('second', clock_timestamp())`)
	s.duty(s.sweeper(sweeper.Config{}), "fire")
	var got []string
	for _, r := range s.claim(s.worker(time.Minute), 10) {
		got = append(got, string(r.Payload))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// P9. Sweepers that run the duty at the same moment, again and again, while the schedules are declared anew.
func TestSweepersTogetherFireEachTickOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	var list []client.Schedule
	for i := range 20 {
		list = append(list, client.Schedule{Name: fmt.Sprint("s", i), Every: time.Second, FirstIn: time.Millisecond, Misfire: client.MisfireAll, MisfireCap: 1000})
	}
	s.sync("test", list...)
	s.exec(`UPDATE weir.schedules SET next_at = next_at - interval '50 s'`)
	begun := mustSchedules(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		sw := s.sweeper(sweeper.Config{})
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := sw.RunDuty(context.WithoutCancel(ctx), "fire"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := s.c.SyncSchedules(context.WithoutCancel(ctx), "test", list, client.SyncOptions{Version: 1}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	s.duty(s.sweeper(sweeper.Config{}), "fire") // what was locked at the end
	for _, b := range begun {
		ticks := s.fired(b.Name)
		now := s.schedule(b.Name)
		if want := int(now.NextAt.Sub(b.NextAt) / time.Second); len(ticks) != want || !ticks[0].Equal(b.NextAt) {
			t.Fatalf("%s: %d jobs for %d ticks", b.Name, len(ticks), want)
		}
		for i := range ticks {
			if want := b.NextAt.Add(time.Duration(i) * time.Second); !ticks[i].Equal(want) {
				t.Fatalf("%s: tick %d is %v, want %v", b.Name, i, ticks[i], want)
			}
		}
	}
}

// To the tick: a sweeper that runs fires when the time comes, not with its next round.
func TestATickIsFiredWhenItComesDueAndWakesAWorker(t *testing.T) {
	t.Parallel()
	for _, mode := range []testenv.RedisMode{testenv.RedisReal, testenv.RedisMini} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, mode)
			w := newIdle(s)
			s.run(s.sweeper(sweeper.Config{Fire: 1500 * time.Millisecond}))
			s.sync("test", client.Schedule{Name: "beat", Every: time.Second, FirstIn: 1700 * time.Millisecond})
			var late []time.Duration
			for deadline := time.After(15 * time.Second); len(late) < 4; {
				select {
				case <-w.hints:
				case <-deadline:
					t.Fatalf("%d ticks have come", len(late))
				}
				w.register()
				for _, r := range s.claim(w.session, 10) {
					tick, err := time.Parse(time.RFC3339, r.Metadata[client.MetadataTick])
					if err != nil {
						t.Fatal(err)
					}
					late = append(late, r.EnqueuedAt.Sub(tick))
				}
			}
			slices.Sort(late)
			t.Logf("fired after their tick: %v", late)
			if late[0] < 0 || late[1] > 250*time.Millisecond {
				t.Errorf("fired after their tick: %v, want never before and within 250ms", late)
			}
		})
	}
}
