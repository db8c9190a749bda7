package pgstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// newSchedule returns a schedule of a minute whose next tick, if it is new, is at.
func (b *bench) newSchedule(name string, at time.Time, edit ...func(*pgstore.NewSchedule)) pgstore.NewSchedule {
	n := pgstore.NewSchedule{
		Name: name, Enabled: true, NextAt: at, Job: b.newJob(),
		Rhythm: pgstore.Rhythm{Every: time.Minute, Misfire: "once", MisfireCap: 100},
	}
	n.Job.ID = [16]byte{}
	for _, f := range edit {
		f(&n)
	}
	return n
}

func (b *bench) sync(owner string, version int64, list ...pgstore.NewSchedule) pgstore.Synced {
	b.t.Helper()
	out, err := b.store.SyncSchedules(b.ctx, owner, version, list)
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return out
}

func (b *bench) schedule(name string) pgstore.ScheduleRow {
	b.t.Helper()
	rows, err := b.store.Schedules(b.ctx, name)
	if err != nil || len(rows) != 1 {
		b.t.Fatalf("schedule %s: %d rows, %v", name, len(rows), err)
	}
	return rows[0]
}

// tick fires one tick of a schedule as it was read.
func (b *bench) tick(s pgstore.ScheduleRow) []pgstore.Fired {
	b.t.Helper()
	fired, err := b.store.Fire(b.ctx, []pgstore.Tick{{Name: s.Name, Fence: s.Fence, Old: s.NextAt, New: s.NextAt.Add(time.Minute), At: s.NextAt}})
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return fired
}

func (b *bench) jobs() string {
	b.t.Helper()
	return b.row("SELECT count(*) FROM weir.live")
}

// The guards of a tick and of a sync: each mutation takes one away, and then what it guards against happens.
func TestEachGuardOfSchedulesIsNeeded(t *testing.T) {
	t.Parallel()
	past := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	for name, c := range map[string]struct {
		function, old, new string
		hurt               func(b *bench) bool // reports whether the harm was done
	}{
		"tickOnce": {"fire_v1", "s.next_at = p_olds[i] AND", "", func(b *bench) bool {
			b.sync("o", 1, b.newSchedule("s", past))
			read := b.schedule("s") // by two sweepers
			b.tick(read)
			b.tick(read)
			return b.jobs() == "2"
		}},
		"fireFence": {"fire_v1", "s.fence = p_fences[i] AND", "", func(b *bench) bool {
			b.sync("o", 1, b.newSchedule("s", past))
			read := b.schedule("s")
			b.sync("o", 1, b.newSchedule("s", past, func(n *pgstore.NewSchedule) { n.Rhythm.Cron, n.Rhythm.Every = "0 0 1 1 *", 0 })) // the same next tick
			b.tick(read)
			return b.schedule("s").NextAt.Equal(past.Add(time.Minute)) // of the rhythm that is not any more
		}},
		"notEarly": {"fire_v1", "<= clock_timestamp()", "< 'infinity'", func(b *bench) bool {
			b.sync("o", 1, b.newSchedule("s", time.Now().Add(time.Hour)))
			b.tick(b.schedule("s")) // a sweeper whose clock is ahead
			return b.jobs() == "1"
		}},
		"off": {"fire_v1", "coalesce(s.override, s.enabled)", "true", func(b *bench) bool {
			b.sync("o", 1, b.newSchedule("s", past))
			read := b.schedule("s")
			b.exec("UPDATE weir.schedules SET override = false") // by hand: the fence stays
			b.tick(read)
			return b.jobs() == "1"
		}},
		"newestWins": {"schedule_sync_v1", "o.version <= excluded.version", "true", func(b *bench) bool {
			b.sync("o", 2, b.newSchedule("new", past))
			out := b.sync("o", 1, b.newSchedule("old", past))
			return !out.Older || len(b.rows("SELECT name FROM weir.schedules WHERE name = 'old'")) > 0
		}},
		"keepsNext": {"schedule_sync_v1", "WHEN v_keeps THEN u.next_at", "WHEN false THEN u.next_at", func(b *bench) bool {
			b.sync("o", 1, b.newSchedule("s", past))
			b.sync("o", 1, b.newSchedule("s", past.Add(time.Hour), func(n *pgstore.NewSchedule) { n.Job.Priority = 1 }))
			return !b.schedule("s").NextAt.Equal(past)
		}},
		"owner": {"schedule_sync_v1", "s.owner IS DISTINCT FROM p_owner", "false", func(b *bench) bool {
			b.sync("o", 1, b.newSchedule("s", past))
			_, _ = b.store.SyncSchedules(b.ctx, "other", 1, []pgstore.NewSchedule{b.newSchedule("s", past, func(n *pgstore.NewSchedule) { n.Job.Priority = 1 })})
			return b.schedule("s").Fence != 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.hurt(open(t)) {
				t.Fatal("it happens with the guard")
			}
			b := open(t)
			b.mutate(c.function, c.old, c.new)
			if !c.hurt(b) {
				t.Error("it does not happen without the guard: the test shows nothing")
			}
		})
	}
}

// A locked row is left alone: nobody waits for a sweeper that stands still in the middle of a statement.
func TestATickWhoseScheduleIsLockedIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := open(t)
	past := time.Now().Add(-time.Minute)
	b.sync("o", 1, b.newSchedule("free", past), b.newSchedule("held", past))
	tx, err := b.pool.Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	if _, err := tx.Exec(b.ctx, b.text("SELECT FROM weir.schedules WHERE name = 'held' FOR UPDATE")); err != nil {
		t.Fatal(err)
	}
	var ticks []pgstore.Tick
	for _, name := range []string{"held", "free"} {
		s := b.schedule(name)
		ticks = append(ticks, pgstore.Tick{Name: name, Fence: s.Fence, Old: s.NextAt, New: s.NextAt.Add(time.Hour), At: s.NextAt})
	}
	fired, err := b.store.Fire(b.ctx, ticks)
	if err != nil || len(fired) != 1 || fired[0].Place != 1 || fired[0].Kind != "k" || fired[0].Queue != "q" {
		t.Errorf("fired %+v, %v", fired, err)
	}
}

func TestASyncTouchesWhatHasChangedAlone(t *testing.T) {
	t.Parallel()
	b := open(t)
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	b.sync("other", 9, b.newSchedule("theirs", at))
	theirs := b.row("SELECT s::text FROM weir.schedules AS s WHERE name = 'theirs'")
	out := b.sync("o", 1, b.newSchedule("a", at), b.newSchedule("b", at), b.newSchedule("c", at))
	if !slices.Equal(out.Added, []string{"a", "b", "c"}) || out.Changed != nil || out.Removed != nil {
		t.Errorf("the first: %+v", out)
	}
	image := func() string {
		return strings.Join(b.rows("SELECT xmin::text, s::text FROM weir.schedules AS s ORDER BY name"), "\n")
	}
	before := image()
	if out = b.sync("o", 1, b.newSchedule("c", at.Add(time.Hour)), b.newSchedule("a", at), b.newSchedule("b", at)); out.Added != nil || out.Changed != nil || out.Removed != nil || image() != before {
		t.Errorf("the same again: %+v", out)
	}
	later := at.Add(time.Minute)
	out = b.sync("o", 2,
		b.newSchedule("a", later, func(n *pgstore.NewSchedule) { n.Rhythm.Every = time.Hour }),
		b.newSchedule("c", later, func(n *pgstore.NewSchedule) { n.Job.Payload = []byte(`{"n": 2}`) }),
		b.newSchedule("d", later))
	if !slices.Equal(out.Added, []string{"d"}) || !slices.Equal(out.Changed, []string{"a", "c"}) || !slices.Equal(out.Removed, []string{"b"}) {
		t.Errorf("the next: %+v", out)
	}
	if a, c := b.schedule("a"), b.schedule("c"); !a.NextAt.Equal(later) || !c.NextAt.Equal(at) || string(c.Payload) != `{"n": 2}` || a.Fence != 1 {
		t.Errorf("a new rhythm is due at %v, other args at %v", a.NextAt, c.NextAt)
	}
	if out := b.sync("o", 1); !out.Older || b.row("SELECT count(*) FROM weir.schedules WHERE owner = 'o'") != "3" {
		t.Errorf("an older version: %+v", out)
	}
	b.sync("o", 2)
	if out := b.sync("o", 1, b.newSchedule("a", at)); !out.Older {
		t.Errorf("an older version after an empty list: %+v", out)
	}
	if n, err := b.store.ForgetOwner(b.ctx, "o"); n != 1 || err != nil {
		t.Error(n, err)
	}
	if out := b.sync("o", 1, b.newSchedule("a", at)); out.Older || len(out.Added) != 1 {
		t.Errorf("an older version after a rollback: %+v", out)
	}
	if got := b.row("SELECT s::text FROM weir.schedules AS s WHERE name = 'theirs'"); got != theirs {
		t.Errorf("another owner's: %s, want %s", got, theirs)
	}
	_, err := b.store.SyncSchedules(b.ctx, "o", 3, []pgstore.NewSchedule{b.newSchedule("e", at), b.newSchedule("theirs", at)})
	var owned *pgstore.OwnedError
	if !errors.As(err, &owned) || owned.Name != "theirs" || owned.Owner != "other" || len(b.rows("SELECT name FROM weir.schedules WHERE name = 'e'")) != 0 {
		t.Errorf("another owner's name: %v", err)
	}
}

// What was said by hand holds until the declaration says otherwise.
func TestSwitchesByHandOutliveASync(t *testing.T) {
	t.Parallel()
	b := open(t)
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	declared := func(on bool) func(*pgstore.NewSchedule) { return func(n *pgstore.NewSchedule) { n.Enabled = on } }
	b.sync("o", 1, b.newSchedule("s", at))
	turn := func(on bool, next time.Time) {
		t.Helper()
		if done, err := b.store.EnableSchedule(b.ctx, "s", b.schedule("s").Fence, on, next); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	want := func(on bool, next time.Time, what string) {
		t.Helper()
		if s := b.schedule("s"); s.Enabled() != on || !s.NextAt.Equal(next) {
			t.Errorf("%s: on %v, next %v, want %v, %v", what, s.Enabled(), s.NextAt, on, next)
		}
	}
	turn(false, time.Time{})
	want(false, at, "off by hand")
	b.sync("o", 1, b.newSchedule("s", at.Add(time.Hour)))
	want(false, at, "declared again")
	turn(true, at.Add(2*time.Hour))
	want(true, at.Add(2*time.Hour), "on by hand")
	if done, err := b.store.EnableSchedule(b.ctx, "s", 0, false, time.Time{}); done || err != nil {
		t.Error("a switch of what was changed meanwhile:", done, err)
	}
	b.sync("o", 1, b.newSchedule("s", at, declared(false)))
	want(false, at.Add(2*time.Hour), "declared off")
	turn(true, at)
	want(true, at, "on by hand, against the declaration")
	b.sync("o", 1, b.newSchedule("s", at.Add(3*time.Hour), declared(true)))
	want(true, at.Add(3*time.Hour), "declared on")
}

// The statements of a tick on a table that was empty when they were planned, with many schedules that are not due.
func TestLookingForDueSchedulesReadsTheirIndex(t *testing.T) {
	t.Parallel()
	b := open(t)
	if due, err := b.store.FireDue(b.ctx, time.Second, nil, 10); err != nil || len(due) != 0 {
		t.Fatal(due, err)
	}
	b.exec(`INSERT INTO weir.schedules (name, owner, next_at, every_ms, misfire, misfire_cap, job)
		SELECT 's' || i, 'o', clock_timestamp() + interval '1 h', 60000, 'once', 1, '{}' FROM generate_series(1, 20000) AS i`)
	b.sync("p", 1, b.newSchedule("due", time.Now().Add(-time.Second)))
	var least time.Duration = time.Hour
	for range 20 {
		began := time.Now()
		due, err := b.store.FireDue(b.ctx, time.Second, nil, 10)
		if least = min(least, time.Since(began)); err != nil || len(due) != 1 || due[0].Name != "due" {
			t.Fatal(due, err)
		}
	}
	if least > 5*time.Millisecond {
		t.Errorf("it takes %v", least)
	}
}
