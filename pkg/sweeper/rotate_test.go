package sweeper_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

const day = 24 * time.Hour

// calendar rotates at times of its own choice.
type calendar struct {
	*site
	sw  *sweeper.Sweeper
	now time.Time // of the database, when the test began
}

func newCalendar(t *testing.T, cfg sweeper.Config) *calendar {
	t.Helper()
	s := newSite(t, testenv.RedisNone)
	now, err := s.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &calendar{s, s.sweeper(cfg), now}
}

// rotate does rounds of the duty at a time.
func (c *calendar) rotate(at time.Time, rounds int) {
	c.Helper()
	for range rounds {
		if _, err := c.sw.RotateAt(c.Context(), at); err != nil {
			c.Fatal("rotate: ", err)
		}
	}
}

// midnight returns the end of the present day, and n days more.
func (c *calendar) midnight(n int) time.Time {
	return pgstore.Floor(pgstore.Day, c.now).Add(time.Duration(n+1) * day)
}

func (c *calendar) partitions(parent string) (names []string) {
	c.Helper()
	all, err := c.store.Partitions(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	for _, p := range all {
		if p.Parent == parent && !p.IsDefault() {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (c *calendar) gone(id job.ID) bool {
	c.Helper()
	_, err := c.store.Job(c.Context(), id)
	if err != nil && !errors.Is(err, pgstore.ErrNotFound) {
		c.Fatal(err)
	}
	return err != nil
}

func TestPartitionsAreMadeAheadOnceAndBySweepersAtOnce(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, sweeper.Config{Ahead: 5})
	var wg sync.WaitGroup
	for range 3 {
		sw := c.sweeper(sweeper.Config{Ahead: 5})
		wg.Go(func() {
			for range 3 {
				if _, err := sw.RotateAt(t.Context(), c.now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c.rotate(c.now, 1) // those given up for a lock in the crowd
	for _, parent := range pgstore.Parents {
		if got := c.partitions(parent); len(got) != 6 || got[5] != pgstore.PartitionName(parent, pgstore.Day, c.now.Add(5*day)) {
			t.Errorf("%s: %v", parent, got)
		}
	}
}

func TestAJobDelayedBeyondTheRetentionRunsAndItsOutcomeStaysAsLongAsItShould(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, sweeper.Config{})
	delayed := c.enqueue(1, func(_ int, j *pgstore.NewJob) { j.Delay = 30 * day })[0]
	w := c.worker(time.Hour)
	done := c.enqueue(1)[0]
	c.finish(w, c.claim(w, 1))
	failed := c.enqueue(1)[0]
	held := pgstore.Held{ID: failed, Fence: c.claim(w, 1)[0].Fence}
	fail := pgstore.Failure{Held: held, Outcome: "failed", Error: "no", Ran: time.Second, Final: job.DeadDiscarded}
	if _, err := c.store.Bury(c.Context(), w, []pgstore.Failure{fail}); err != nil {
		t.Fatal(err)
	}
	today := pgstore.PartitionName("jobs", pgstore.Day, c.now)

	c.rotate(c.midnight(1).Add(-time.Second), 2) // outcomes of today may be no older than 24h
	if c.gone(done) || string(c.row(done).Payload) != `{"n":1}` || !slices.Contains(c.partitions("jobs"), today) {
		t.Fatal("something went within its retention")
	}
	c.rotate(c.midnight(1), 1)
	if !slices.Contains(c.partitions("jobs"), today) {
		t.Error("the log was dropped in the round that copied from it")
	}
	c.rotate(c.midnight(1), 1)
	if !c.gone(done) || slices.Contains(c.partitions("jobs"), today) {
		t.Error("the completed job or its partition is left after the retention")
	}
	if r := c.row(failed); r.State != job.Discarded || string(r.Payload) != `{"n":1}` || len(r.Attempts) != 1 {
		t.Errorf("the dead job does not stand alone: %+v", r)
	}
	c.exec(`UPDATE weir.live SET ready_at = now()`)
	rows := c.claim(w, 10)
	if len(rows) != 1 || rows[0].ID != delayed || string(rows[0].Payload) != `{"n":1}` {
		t.Fatalf("the delayed job: %+v", rows)
	}
	c.finish(w, rows)
	if r := c.row(delayed); r.State != job.Completed || string(r.Payload) != `{"n":1}` {
		t.Errorf("its outcome: %+v", r)
	}
	c.rotate(c.now.Add(20*time.Hour), 2)
	if c.gone(delayed) {
		t.Error("its outcome went within the retention")
	}
	c.rotate(c.now.Add(3*day), 2)
	if !c.gone(delayed) || c.count(`SELECT count(*) FROM weir.jobs_kept`) != 0 {
		t.Error("its outcome or its kept log row is left after the retention")
	}
	c.rotate(c.midnight(14).Add(-time.Second), 2)
	if c.gone(failed) {
		t.Error("the dead job went within its retention")
	}
	c.rotate(c.midnight(14), 2)
	if !c.gone(failed) || c.count(`SELECT count(*) FROM weir.attempts`) != 0 {
		t.Error("the dead job or its attempt is left after the retention")
	}
}

func TestAnOldIDIsRememberedForTheRetentionInTheDefaultPartition(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, sweeper.Config{})
	ids := c.enqueue(2, func(i int, j *pgstore.NewJob) {
		j.ID = pgstore.FloorID(c.now.Add(-40*day + time.Duration(i)*time.Hour)) // the least id of its millisecond, too
	})
	w := c.worker(time.Hour)
	c.finish(w, c.claim(w, 1))
	c.rotate(c.now.Add(23*time.Hour), 2)
	if n := c.count(`SELECT count(*) FROM weir.jobs_default`); n != 2 {
		t.Errorf("%d rows in the default partition, want 2 within the retention", n)
	}
	c.rotate(c.now.Add(25*time.Hour), 2)
	if n := c.count(`SELECT count(*) FROM weir.jobs_default`); n != 0 {
		t.Errorf("%d rows are left in the default partition", n)
	}
	rows := c.claim(w, 10)
	if len(rows) != 1 || rows[0].ID != ids[1] || string(rows[0].Payload) != `{"n":1}` {
		t.Errorf("the live one: %+v", rows)
	}
}

func TestAReaderThatStaysStopsNeitherEnqueuesNorRotationForLong(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, sweeper.Config{})
	c.enqueue(10)
	w := c.worker(time.Hour)
	reader, err := c.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback(context.Background())
	if _, err := reader.Exec(t.Context(), c.sql(`SELECT count(*) FROM weir.jobs`)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var enqueue, claim, statement time.Duration
	wg.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			c.enqueue(1)
			enqueue = max(enqueue, time.Since(began))
			began = time.Now()
			c.finish(w, c.claim(w, 1))
			claim = max(claim, time.Since(began))
		}
	})
	before := c.partitions("jobs")
	for range 5 {
		statement = max(statement, c.tryToRetireAll())
		c.rotate(c.midnight(5), 1) // makes, empties and drops what it can
	}
	cancel()
	wg.Wait()
	t.Logf("longest: enqueue %v, claim and finish %v, statement of the rotation %v", enqueue, claim, statement)
	// 50 ms, and a machine that runs other packages' tests: who waited for the reader would wait until the end of the test. The
	// bound itself is held in test/chaos, alone on its server.
	if limit := 500 * time.Millisecond; enqueue > limit || claim > 2*limit || statement > limit {
		t.Errorf("longest: enqueue %v, claim and finish %v, statement of the rotation %v", enqueue, claim, statement)
	}
	if got := c.partitions("jobs"); !slices.Equal(got, before) {
		t.Errorf("partitions of jobs changed beside a reader: %v", got)
	}
	if c.sw.Stats().Busy == 0 {
		t.Error("nothing was put off")
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.rotate(c.midnight(5), 3)
	if got := c.partitions("jobs"); len(got) != 3 || got[0] != pgstore.PartitionName("jobs", pgstore.Day, c.midnight(5)) {
		t.Errorf("after the reader: %v", got)
	}
}

// tryToRetireAll tries to empty and drop each partition of jobs, which a reader must prevent, and returns how long the
// longest try took.
func (c *calendar) tryToRetireAll() (longest time.Duration) {
	c.Helper()
	parts, err := c.store.Partitions(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	for _, p := range parts {
		if p.Parent != "jobs" || p.IsDefault() {
			continue
		}
		began := time.Now()
		if emptied, err := c.store.EmptyPartition(c.Context(), p); emptied || err != nil && !pgstore.IsBusy(err) {
			c.Errorf("%s is emptied beside a reader: %v, %v", p.Name, emptied, err)
		}
		longest = max(longest, time.Since(began))
		began = time.Now()
		if dropped, err := c.store.DropPartition(c.Context(), p); dropped || !pgstore.IsBusy(err) {
			c.Errorf("%s is dropped beside a reader: %v, %v", p.Name, dropped, err)
		}
		longest = max(longest, time.Since(began))
	}
	return longest
}
