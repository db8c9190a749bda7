package sweeper_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

// hold makes a job that was claimed the holder of a key.
func (s *site) hold(key string, r job.Row) {
	s.Helper()
	s.exec(`UPDATE weir.live SET keys = ARRAY[$2], flags = flags | 1, line_at = ready_at WHERE id = $1`, r.ID.UUID(), key)
	s.exec(`INSERT INTO weir.locks (key, slot, job_id, fence) VALUES ($2, (SELECT count(*) FROM weir.locks WHERE key = $2), $1, $3)`,
		r.ID.UUID(), key, r.Fence)
}

// block makes waiting jobs wait for a key.
func (s *site) block(key string, ids ...job.ID) {
	s.Helper()
	for _, id := range ids {
		s.exec(`UPDATE weir.live SET keys = ARRAY[$2], flags = flags | 1, line_at = ready_at, state = 2, blocked_on = $2 WHERE id = $1`,
			id.UUID(), key)
	}
}

// next returns the job that has a place in locks for a key; the zero ID if there is none.
func (s *site) next(key string) (id job.ID) {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), s.sql(`SELECT job_id FROM weir.locks WHERE key = $1`), key)
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if !id.IsZero() {
			s.Fatalf("key %s has several holders", key)
		}
		if err := rows.Scan((*[16]byte)(&id)); err != nil {
			s.Fatal(err)
		}
	}
	return id
}

func (s *site) repaired(sw *sweeper.Sweeper, kind string) uint64 { return sw.Stats().Repairs[kind] }

// Each of these leaves a key that nobody holds and a job that waits for it. The duty that finds it gives the job a place,
// makes it available and wakes a worker for it.
func TestAFreeKeyPassesToWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		duty, kind string
		harm       func(s *site, waits job.ID)
	}{
		"nobody had passed it on": {"unblock", pgstore.RepairIdle, func(*site, job.ID) {}},
		"a reservation that nobody used": {"unblock", pgstore.RepairReservation, func(s *site, _ job.ID) {
			r := s.claim(s.worker(time.Minute), 1)[0]
			s.hold("key", r)
			s.exec(`UPDATE weir.live SET state = 0, session = NULL, ready_at = now() + interval '1 h' WHERE id = $1`, r.ID.UUID())
			s.exec(`UPDATE weir.locks SET until = now() - interval '1 s'`)
		}},
		"its holder is not live": {"unblock", pgstore.RepairOrphan, func(s *site, _ job.ID) {
			s.exec(`INSERT INTO weir.locks (key, slot, job_id, fence) VALUES ('key', 0, gen_random_uuid(), 1)`)
		}},
		"its holder has another fence": {"unblock", pgstore.RepairOrphan, func(s *site, _ job.ID) {
			r := s.claim(s.worker(time.Minute), 1)[0]
			s.hold("key", r)
			s.exec(`UPDATE weir.locks SET fence = fence - 1`)
		}},
		"its holder died twice": {"recover", "", func(s *site, _ job.ID) {
			w := s.worker(time.Minute)
			r := s.claim(w, 1)[0]
			s.hold("key", r)
			s.exec(`UPDATE weir.live SET crashes = 1 WHERE id = $1`, r.ID.UUID())
			s.die(w)
		}},
		"its holder died for the third time": {"recover", "", func(s *site, _ job.ID) {
			w := s.worker(time.Minute)
			r := s.claim(w, 1)[0]
			s.hold("key", r)
			s.exec(`UPDATE weir.live SET crashes = 2 WHERE id = $1`, r.ID.UUID())
			s.die(w)
		}},
		"who was next has expired": {"expire", "", func(s *site, _ job.ID) {
			id := s.enqueue(1)[0]
			s.exec(`UPDATE weir.live SET keys = ARRAY['key'], flags = 1, line_at = ready_at, expires_at = now() - interval '1 s' WHERE id = $1`, id.UUID())
			s.exec(`INSERT INTO weir.locks (key, slot, job_id, fence, until) VALUES ('key', 0, $1, 0, now() + interval '1 h')`, id.UUID())
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, testenv.RedisMini)
			w := newIdle(s)
			sw := s.sweeper(sweeper.Config{})
			ids := s.enqueue(2)
			s.exec(`UPDATE weir.live SET ready_at = ready_at - interval '1 s' WHERE id = $1`, ids[0].UUID()) // claimed first, if any is
			s.block("key", ids[1])
			c.harm(s, ids[1])
			s.duty(sw, c.duty)
			if got := s.next("key"); got != ids[1] {
				t.Errorf("the key is held by %v, want %v", got, ids[1])
			}
			if r := s.row(ids[1]); r.State != job.Available {
				t.Errorf("the job is %v", r.State)
			}
			if h, ok := w.heard(); !ok || h.Queue != "q" || h.Count != 1 || h.Kind != "k" {
				t.Errorf("hint %+v, %v", h, ok)
			}
			for kind, n := range sw.Stats().Repairs {
				if want := map[bool]uint64{true: 1}[kind == c.kind]; n != want {
					t.Errorf("%d repairs of the kind %s, want %d", n, kind, want)
				}
			}
			s.duty(sw, "unblock")
			if h, ok := w.heard(); ok {
				t.Errorf("the place was given away again: %+v", h)
			}
		})
	}
}

// P7: who was next in line and was not taken in time is next again, with all its keys: those behind it do not get by.
func TestAReservationThatRanOutGoesToTheSameJobAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisMini)
	w := newIdle(s)
	sw := s.sweeper(sweeper.Config{})
	ids := s.enqueue(3)
	s.block("key", ids...)
	s.exec(`UPDATE weir.live SET keys = ARRAY['key', 'other'], key_limits = ARRAY[1, 1] WHERE id = $1`, ids[0].UUID())
	s.exec(`INSERT INTO weir.waits (key, line_at, job_id) SELECT 'other', line_at, id FROM weir.live WHERE id = $1`, ids[0].UUID())
	for range 3 {
		s.duty(sw, "unblock")
		if got := [2]job.ID{s.next("key"), s.next("other")}; got != [2]job.ID{ids[0], ids[0]} {
			t.Fatalf("the keys are held by %v, want %v twice", got, ids[0])
		}
		if h, ok := w.heard(); !ok || h.Count != 1 {
			t.Errorf("hint %+v, %v", h, ok)
		}
		w.register()
		if n := s.count(`SELECT count(*) FROM weir.waits`); n != 0 {
			t.Errorf("%d places in lines of a job that is not blocked", n)
		}
		s.exec(`UPDATE weir.locks SET until = now() - interval '1 s'`)
	}
}

// A job that died for the first time keeps its place: it has a reservation until it is taken up again.
func TestAJobWhoseProcessDiedOnceKeepsItsKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	sw := s.sweeper(sweeper.Config{})
	w := s.worker(time.Minute)
	s.enqueue(1)
	r := s.claim(w, 1)[0]
	s.hold("key", r)
	waits := s.enqueue(1)
	s.block("key", waits...)
	s.die(w)
	s.duty(sw, "recover")
	s.duty(sw, "unblock")
	if got := s.next("key"); got != r.ID {
		t.Errorf("the key is held by %v, want %v", got, r.ID)
	}
	if row := s.row(waits[0]); row.State != job.Blocked {
		t.Errorf("who waits is %v", row.State)
	}
}

// One pass gives some places away; the duty goes on until all are (`passLoop`).
func TestAllPlacesOfAKeyAreGivenAwayInOneRound(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.worker(time.Minute)
	const limit = 70
	s.block("key", s.enqueue(limit+10)...)
	s.exec(`UPDATE weir.live SET key_limits = ARRAY[$1::int]`, limit)
	s.duty(s.sweeper(sweeper.Config{}), "unblock")
	if n := s.count(`SELECT count(*) FROM weir.locks WHERE until > now()`); n != limit {
		t.Errorf("%d places were given away, want %d", n, limit)
	}
}

func TestTwoSweepersGiveAPlaceToOneJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.worker(time.Minute) // what nobody can run gets no place
	const n = 50
	ids := s.enqueue(2 * n)
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprint("key ", i))
		s.block(keys[i], ids[2*i], ids[2*i+1])
	}
	one, two := s.sweeper(sweeper.Config{}), s.sweeper(sweeper.Config{})
	var wg sync.WaitGroup
	for _, sw := range []*sweeper.Sweeper{one, two} {
		wg.Go(func() {
			if _, err := sw.RunDuty(s.Context(), "unblock"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, key := range keys {
		if got := s.next(key); got != ids[2*i] {
			t.Errorf("key %s is held by %v, want the older %v", key, got, ids[2*i])
		}
	}
	if got := s.count(`SELECT count(*) FROM weir.live WHERE state = 2`); got != n {
		t.Errorf("%d jobs are blocked, want %d", got, n)
	}
}

// What is right stays as it is: a job that runs, one that is next in line, one that keeps its keys until its process is gone.
func TestUnblockLeavesHoldersAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	sw := s.sweeper(sweeper.Config{})
	s.enqueue(3)
	for i, r := range s.claim(s.worker(time.Minute), 3) {
		s.hold([]string{"running", "next", "lingers"}[i], r)
	}
	s.exec(`UPDATE weir.locks SET until = now() + interval '5 s' WHERE key <> 'running'`)
	for _, key := range []string{"running", "next", "lingers"} {
		s.block(key, s.enqueue(1)...)
	}
	if n := s.duty(sw, "unblock"); n != 0 {
		t.Errorf("%d repairs", n)
	}
	if n := s.count(`SELECT count(*) FROM weir.locks`); n != 3 {
		t.Errorf("%d lock rows, want 3", n)
	}
}

// Redis is told what Postgres says of keys that somebody waits for.
func TestReconcileTellsRedisWhoHoldsAKey(t *testing.T) {
	t.Parallel()
	for _, mode := range []testenv.RedisMode{testenv.RedisReal, testenv.RedisMini} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, mode)
			sw := s.sweeper(sweeper.Config{})
			s.enqueue(4)
			keys := []string{"as it is", "leaked", "lost", "nobody waits"}
			var holders []string
			for i, r := range s.claim(s.worker(time.Minute), 4) {
				s.hold(keys[i], r)
				holders = append(holders, r.ID.String())
			}
			s.exec(`UPDATE weir.locks SET slot = 7`)
			for _, key := range keys[:3] {
				s.block(key, s.enqueue(2)...)
			}
			bus := s.c.Bus()
			write := map[string][]string{"as it is": {holders[0]}, "leaked": {holders[1], "gone"}, "nobody waits": {"gone"}}
			if err := bus.WriteHolders(t.Context(), write, time.Minute); err != nil {
				t.Fatal(err)
			}
			if n := s.duty(sw, "reconcile"); n != 2 {
				t.Errorf("%d members were wrong, want 2", n)
			}
			for i, key := range keys[:3] {
				if got := redisHolders(t, bus, key); !slices.Equal(got, holders[i:i+1]) {
					t.Errorf("%s: %v, want %v", key, got, holders[i])
				}
			}
			if n := s.duty(sw, "reconcile"); n != 0 || s.repaired(sw, sweeper.RepairMember) != 2 {
				t.Errorf("%d more repairs, %d in all, want 0 and 2", n, s.repaired(sw, sweeper.RepairMember))
			}
		})
	}
}

func redisHolders(t *testing.T, bus *coord.Bus, key string) []string {
	t.Helper()
	list, err := bus.Holders(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, h := range list {
		out = append(out, h.ID)
	}
	return out
}

// More keys than one round takes are looked at in the next ones, and then from the start again.
func TestReconcileComesToAllKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisMini)
	sw := s.sweeper(sweeper.Config{})
	ids := s.enqueue(250)
	write := map[string][]string{}
	for i, id := range ids {
		key := string(rune(0x4e00 + i))
		s.block(key, id)
		write[key] = []string{"gone"}
	}
	for range 2 {
		if err := s.c.Bus().WriteHolders(t.Context(), write, time.Minute); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for range 3 {
			sum += s.duty(sw, "reconcile")
		}
		if sum != len(ids) {
			t.Errorf("%d repairs in three rounds, want %d", sum, len(ids))
		}
	}
}

func TestWithoutRedisThereIsNothingToReconcile(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	s.block("key", s.enqueue(1)...)
	if n := s.duty(s.sweeper(sweeper.Config{}), "reconcile"); n != 0 {
		t.Errorf("%d repairs", n)
	}
}
