package sweeper_test

import (
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/sweeper"
)

// A schedule of a unique job: while one of its jobs is there, its ticks come and go without another.
func TestAScheduleOfAUniqueJobFiresAndIsDeduplicated(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.sync("test", client.Schedule{Name: "beat", Every: time.Hour, Misfire: client.MisfireAll, Options: job.Options{Unique: job.Unique{Key: "beat"}}})
	s.late("beat", 5*time.Hour)
	first := s.schedule("beat").NextAt
	sw := s.sweeper(sweeper.Config{})
	if n := s.duty(sw, "fire"); n != 1 {
		t.Errorf("six ticks added %d jobs, want 1", n)
	}
	after := s.schedule("beat")
	if got := s.fired("beat"); len(got) != 1 || !got[0].Equal(first) {
		t.Fatalf("ticks that became jobs: %v, want the first, %v", got, first)
	}
	if !after.NextAt.Equal(first.Add(6*time.Hour)) || !after.LastAt.Equal(first.Add(5*time.Hour)) || after.Error != "" {
		t.Errorf("schedule %+v: it has not moved past the ticks without a job", after)
	}
	if st := sw.Stats().Schedules; st != (sweeper.ScheduleStats{Fired: 6}) {
		t.Errorf("counts %+v", st)
	}
	if e, err := s.c.RunSchedule(t.Context(), "beat"); err != nil || !e.Duplicate || e.ID != after.LastJob {
		t.Errorf("by hand: %+v, %v, want a duplicate of %s", e, err, after.LastJob)
	}

	w := s.worker(time.Minute)
	rows := s.claim(w, 10)
	if len(rows) != 1 || rows[0].ID != after.LastJob {
		t.Fatalf("claimed %+v, want %s", rows, after.LastJob)
	}
	s.late("beat", 0)
	if n := s.duty(sw, "fire"); n != 0 {
		t.Errorf("%d jobs while the first runs", n)
	}
	s.finish(w, rows)
	s.late("beat", 0)
	if n := s.duty(sw, "fire"); n != 1 {
		t.Errorf("%d jobs after its end, want 1", n)
	}
	if last := s.schedule("beat").LastJob; last == after.LastJob || s.row(last).State != job.Available {
		t.Errorf("the last job is %s, that of before", last)
	}
}

func TestAScheduleOfAUniqueJobMayReplaceTheOneThatWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	unique := job.Unique{Key: "beat", While: job.Waiting, OnConflict: job.Replace}
	s.sync("test", client.Schedule{Name: "beat", Every: time.Hour, Options: job.Options{Unique: unique}})
	sw := s.sweeper(sweeper.Config{})
	var ids []job.ID
	for range 2 {
		s.late("beat", 0)
		if n := s.duty(sw, "fire"); n != 1 {
			t.Fatalf("%d jobs, want 1", n)
		}
		ids = append(ids, s.schedule("beat").LastJob)
	}
	if old := s.row(ids[0]); old.State != job.Cancelled || old.Error != job.DuplicateText(ids[1]) {
		t.Errorf("the older one is %s, %q", old.State, old.Error)
	}
	if now := s.row(ids[1]); now.State != job.Available {
		t.Errorf("the newer one is %s", now.State)
	}
}

// While an open transaction has the key nobody knows if there will be a job: the tick waits for that, and holds nobody up.
func TestATickWhoseUniqueKeyIsInAnOpenTransactionIsFiredAfterIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	unique := job.Options{Queue: "q", Unique: job.Unique{Key: "beat"}}
	s.sync("test", client.Schedule{Name: "beat", Every: time.Hour, Options: unique}, client.Schedule{Name: "other", Every: time.Hour})
	sw := s.sweeper(sweeper.Config{})
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := s.c.EnqueueTx(t.Context(), tx, beat, unique); err != nil {
		t.Fatal(err)
	}
	s.late("beat", time.Second)
	s.late("other", 0)
	due := s.schedule("beat").NextAt
	if n := s.duty(sw, "fire"); n != 1 {
		t.Errorf("%d jobs, want that of the other schedule", n)
	}
	if i := s.schedule("beat"); !i.NextAt.Equal(due) || i.Error != "" {
		t.Errorf("its tick was dropped: %+v", i)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.duty(sw, "fire"); n != 1 {
		t.Errorf("%d jobs after the rollback, want 1", n)
	}
	if got := s.fired("beat"); len(got) != 1 || !got[0].Equal(due) {
		t.Errorf("fired %v, want %v", got, due)
	}
}
