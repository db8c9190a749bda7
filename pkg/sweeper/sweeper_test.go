package sweeper_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

func TestABadConfigIsRefusedByTheNameOfItsField(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	for field, cfg := range map[string]sweeper.Config{
		"Lease":               {Lease: time.Second},
		"Recover":             {Recover: -1},
		"Retention.Completed": {Retention: sweeper.Retention{Completed: -time.Second}},
		"Width":               {Width: 9},
		"Ahead":               {Ahead: -1},
		"DutiesOff":           {DutiesOff: []string{"rotat"}},
	} {
		if _, err := sweeper.New(s.c, cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := sweeper.New(nil, sweeper.Config{}); err == nil {
		t.Error("no client is accepted")
	}
}

func TestEveryDutyRunsAloneAlsoThroughAPooler(t *testing.T) {
	t.Parallel()
	for name, through := range map[string]func(*testing.T) string{
		"directly":               func(t *testing.T) string { return testenv.Postgres(t) },
		"a pooler, transactions": func(t *testing.T) string { return testenv.PgBouncer(t, testenv.Postgres(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, ns := testenv.SchemaOn(t, through(t))
			c, err := client.New(pool, client.Config{Namespace: ns, Pooler: true, Redis: testenv.RedisClient(t, testenv.RedisMini)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			s := &site{T: t, pool: pool, c: c, store: c.Store()}
			sw := s.sweeper(sweeper.Config{Ahead: 4})
			s.enqueue(10)
			s.die(s.worker(time.Minute))
			for _, name := range sw.Duties() {
				s.duty(sw, name)
			}
			now := time.Now()
			for range 3 {
				if _, err := sw.RotateAt(t.Context(), now.Add(30*24*time.Hour)); err != nil {
					t.Error(err)
				}
			}
			p := pgstore.Partition{Parent: "jobs", Name: pgstore.PartitionName("jobs", pgstore.Day, now.Add(99*24*time.Hour))}
			_, p.From, p.To, _ = pgstore.ParsePartition(p.Name)
			if err := s.store.GuardPartition(t.Context(), p, time.Minute); err != nil {
				t.Error(err)
			}
			if n := len(s.claim(s.worker(time.Minute), 100)); n != 10 {
				t.Errorf("%d jobs after the rotation, want 10", n)
			}
			if _, err := sw.RunDuty(t.Context(), "rotat"); err == nil {
				t.Error("an unknown duty is done")
			}
		})
	}
}

func TestRunEndsWithItsContextAndTakesItsSessionAlong(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisMini)
	sw := s.sweeper(sweeper.Config{DutiesOff: []string{"counts"}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- sw.Run(ctx) }()
	sessions := func() int { return s.count(`SELECT count(*) FROM weir.sessions WHERE role = 'sweeper'`) }
	testenv.Eventually(t, 5*time.Second, func() bool {
		ran := 0
		for _, d := range sw.Stats().Duties {
			if d.Runs > 0 {
				ran++
			}
		}
		return sessions() == 1 && ran == len(sw.Duties())-1
	}, "not every duty has run")
	if err := sw.Run(ctx); err == nil {
		t.Error("it runs twice")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func TestExpiredJobsEndAndAreToldOf(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	ids := s.enqueue(450, func(_ int, j *pgstore.NewJob) { j.ExpiresIn = time.Millisecond })
	kept := s.enqueue(1, func(_ int, j *pgstore.NewJob) { j.ExpiresIn = time.Hour })[0]
	var told []sweeper.Event
	sw := s.sweeper(sweeper.Config{OnEvent: func(e sweeper.Event) { told = append(told, e) }})
	testenv.Eventually(t, 5*time.Second, func() bool { s.duty(sw, "expire"); return len(told) == len(ids) }, "not all expired")
	if e := told[0]; e.What != job.Expire || e.State != job.Expired || e.Kind != "k" || e.Queue != "q" {
		t.Errorf("event %+v", e)
	}
	if r := s.row(ids[0]); r.State != job.Expired {
		t.Errorf("state %s", r.State)
	}
	if r := s.row(kept); r.State != job.Available {
		t.Errorf("state %s of one whose time has not come", r.State)
	}
}

func TestWhatAnExpiredJobHadReservedOfARateIsGivenBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisReal)
	ids := s.enqueue(4, func(_ int, j *pgstore.NewJob) {
		j.Keys = []job.Key{job.Rate("stripe", 1, 10*time.Second), job.Rate("b c", 100, time.Second)}
	})
	// wait returns how long a job has to wait by Redis, as a worker asks it.
	wait := func(id job.ID) time.Duration {
		t.Helper()
		one := coord.RateJob{Member: id.String() + ":1", Rates: []coord.RateKey{{Name: "stripe", N: 1, Per: 10 * time.Second, Weight: 1}}}
		waits, _, err := s.c.Bus().Reserve(t.Context(), []coord.RateJob{one}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return waits[0]
	}
	wait(ids[0])
	second, third := wait(ids[1]), wait(ids[2])
	if second <= 0 || third < second+5*time.Second {
		t.Fatalf("the second and the third wait %v and %v, want one window more each", second, third)
	}
	s.exec(`UPDATE weir.live SET expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, [16]byte(ids[1]))
	if n := s.duty(s.sweeper(sweeper.Config{}), "expire"); n != 1 {
		t.Fatalf("%d jobs expired, want 1", n)
	}
	if fourth := wait(ids[3]); fourth > second {
		t.Errorf("the last waits %v, want the %v of the one that has expired", fourth, second)
	}
}

func TestDeadSessionsAndUniqueKeysOfEndedJobsGo(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	sw := s.sweeper(sweeper.Config{})
	long, fresh, holds := s.worker(time.Minute), s.worker(time.Minute), s.worker(time.Minute)
	live := s.enqueue(2)
	s.claim(holds, 1)
	s.exec(`UPDATE weir.sessions SET dead_at = now() - interval '61 min' WHERE id = ANY ($1)`, [][16]byte{long, holds})
	s.die(fresh)
	if n := s.duty(sw, "sessions"); n != 1 {
		t.Errorf("%d sessions deleted, want the one that died long ago and holds nothing", n)
	}
	s.exec(`INSERT INTO weir.uniques (kind, key, slot, job_id, until) SELECT 'k', decode(lpad(to_hex(i), 8, '0'), 'hex'), 0, gen_random_uuid(), NULL FROM generate_series(1, 2500) i`)
	s.exec(`INSERT INTO weir.uniques (kind, key, slot, job_id, until) VALUES ('', '', 0, gen_random_uuid(), NULL), ('k', '', 0, $1, NULL),
		('k', '\x01', 0, gen_random_uuid(), now() + interval '1 h'), ('k', '\x02', 0, gen_random_uuid(), now() - interval '1 h')`, [16]byte(live[0]))
	if n := s.duty(sw, "uniques"); n != 2502 {
		t.Errorf("%d unique keys freed, want 2502", n)
	}
	if n := s.count(`SELECT count(*) FROM weir.uniques`); n != 2 {
		t.Errorf("%d unique keys are left, want those of the live job and of the one for an hour", n)
	}
}

func TestAUniqueKeyThatWentToAnotherJobStays(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	old, young := s.c.IDs().New(), s.enqueue(1)[0]
	s.exec(`INSERT INTO weir.uniques (kind, key, slot, job_id) VALUES ('k', '\x01', 0, $1)`, [16]byte(old))
	over, next, err := s.store.Uniques(t.Context(), pgstore.UniqueRow{Slot: -1}, 10)
	if len(over) != 1 || over[0].Job != old || next != nil || err != nil {
		t.Fatalf("seen %v, %v, %v", over, next, err)
	}
	s.exec(`UPDATE weir.uniques SET job_id = $1`, [16]byte(young))
	if n, err := s.store.DeleteUniques(t.Context(), over); n != 0 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}

func TestCountsShowEachStateOfEachQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	ids := s.enqueue(10)
	s.enqueue(4, func(_ int, j *pgstore.NewJob) { j.Queue, j.Delay = "later", time.Hour })
	s.claim(s.worker(time.Minute), 3)
	s.exec(`UPDATE weir.live SET attempt = 1, ready_at = now() + interval '1 h' WHERE id = $1`, [16]byte(ids[9]))
	s.exec(`INSERT INTO weir.counts (queue, state, jobs, at) VALUES ('gone', 0, 7, now() - interval '1 min')`)
	sw := s.sweeper(sweeper.Config{})
	if n := s.duty(sw, "counts"); n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
	got := s.count(`SELECT count(*) FROM weir.counts WHERE (queue, state, jobs, oldest IS NULL)
		IN (('q', 0, 6, false), ('q', 1, 3, true), ('q', 4, 1, true), ('later', 3, 4, true))`)
	if got != 4 {
		t.Errorf("%d of the 4 counts are right", got)
	}
	s.enqueue(1)
	if n := s.duty(sw, "counts"); n != 0 || s.count(`SELECT sum(jobs) FROM weir.counts`) != 14 {
		t.Error("it counts again at once")
	}
}

func TestALargeTableIsCountedBySampleAndSmallQueuesExactly(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.enqueue(5000)
	s.enqueue(7, func(_ int, j *pgstore.NewJob) { j.Queue = "small" })
	s.claim(s.worker(time.Minute), 50)
	if n := s.count(`SELECT weir.counts_v1(0, 20)`); n != 3 { // 20 pages of about 60
		t.Errorf("%d rows, want 3", n)
	}
	if n := s.count(`SELECT jobs FROM weir.counts WHERE queue = 'q' AND state = 0`); n < 2000 || n > 10000 {
		t.Errorf("estimate %d of 4950", n)
	}
	if s.count(`SELECT jobs FROM weir.counts WHERE state = 1`) != 50 || s.count(`SELECT jobs FROM weir.counts WHERE queue = 'small'`) < 7 {
		t.Error("running jobs or the small queue are not counted")
	}
}

func TestTwoSweepersAtOnceNeitherDeadlockNorCountTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	w := s.worker(time.Hour)
	const finished, expired = 2000, 500
	s.enqueue(finished)
	for left := finished; left > 0; {
		left -= s.finish(w, s.claim(w, 500))
	}
	s.enqueue(expired, func(_ int, j *pgstore.NewJob) { j.Queue, j.ExpiresIn = "stale", time.Millisecond })
	now, err := s.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	told := map[job.ID]int{}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 2 {
		sw := s.sweeper(sweeper.Config{Retention: sweeper.Retention{Completed: time.Second}, OnEvent: func(e sweeper.Event) {
			mu.Lock()
			defer mu.Unlock()
			told[e.ID]++
		}})
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				for _, name := range sw.Duties() {
					// Not ctx: a statement that is cut off may commit, and what it did is not told.
					_, err := sw.RunDuty(t.Context(), name)
					s.tolerable(ctx, name, err)
				}
				// Each round a day later: partitions come and go while workers write.
				_, err := sw.RotateAt(t.Context(), now.Add(time.Duration(i%20)*12*time.Hour))
				s.tolerable(ctx, "rotate", err)
			}
		})
	}
	died, crashed := 0, 0
	for ctx.Err() == nil { // a worker that dies again and again, and one that does not
		s.enqueue(20)
		w2 := s.worker(time.Hour)
		crashed += len(s.claim(w2, 10))
		s.die(w2)
		died++
		s.finish(w, s.claim(w, 15))
	}
	wg.Wait()
	s.recovered(told, died, crashed, expired)
}

// tolerable fails the test for errors that two sweepers must not give each other.
func (s *site) tolerable(ctx context.Context, name string, err error) {
	var pg *pgconn.PgError
	if err == nil || ctx.Err() != nil && !errors.As(err, &pg) {
		return
	}
	s.Errorf("%s: %v", name, err)
}

// recovered checks that what was told is what the tables say.
func (s *site) recovered(told map[job.ID]int, died, crashed, expired int) {
	s.Helper()
	s.duty(s.sweeper(sweeper.Config{OnEvent: func(e sweeper.Event) { told[e.ID]++ }}), "recover")
	events := 0
	for _, n := range told {
		events += n
	}
	s.Logf("%d processes died with %d jobs; %d events", died, crashed, events)
	if events != crashed+expired {
		s.Errorf("%d events, want %d", events, crashed+expired)
	}
	if n := s.count(`SELECT count(*) FROM weir.live AS l WHERE l.attempt <> CASE WHEN l.state = 1 THEN 1 ELSE 0 END`); n != 0 {
		s.Errorf("%d jobs have an attempt that did not run to its end", n)
	}
	if n := s.count(`SELECT count(*) FROM weir.live WHERE queue = 'stale'`); n != 0 {
		s.Errorf("%d expired jobs are left", n)
	}
}

func TestASweeperFrozenInATransactionDoesNotHoldUpTheOther(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.enqueue(150, func(_ int, j *pgstore.NewJob) { j.Queue, j.ExpiresIn = "stale", time.Millisecond })
	s.enqueue(150)
	w := s.worker(time.Hour)
	s.claim(w, 150)
	silent := []job.ID{s.worker(time.Millisecond), s.worker(time.Millisecond)}
	s.die(w)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	frozen := s.store.On(tx)
	testenv.Eventually(t, time.Second, func() bool {
		got, err := frozen.Expire(t.Context(), 50)
		return err == nil && len(got) == 50
	}, "nothing expires")
	if got, err := frozen.Recover(t.Context(), nil, 50, 0); len(got) != 50 || err != nil {
		t.Fatal(len(got), err)
	}
	s.exec(`UPDATE weir.sessions SET lease_until = lease_until - interval '1 s' WHERE id = $1`, [16]byte(silent[0]))
	if dead, err := frozen.MarkDeadBy(t.Context(), silent[1], time.Now().Add(time.Hour)); len(dead) != 1 || err != nil {
		t.Fatal(dead, err)
	}
	sw := s.sweeper(sweeper.Config{})
	began := time.Now()
	if n := s.duty(sw, "expire") + s.duty(sw, "recover"); n != 200 {
		t.Errorf("%d jobs beside the frozen sweeper's, want 200", n)
	}
	dead, err := s.store.MarkDeadBy(t.Context(), job.ID{}, time.Now().Add(time.Hour))
	if err != nil || !slices.ContainsFunc(dead, func(d pgstore.DeadSession) bool { return d.ID == silent[1] }) {
		t.Errorf("marked %v, %v", dead, err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
