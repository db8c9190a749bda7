package sweeper_test

import (
	"context"
	"math/rand/v2"
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

// idle is a worker that claims when a hint says so, and at no other time.
type idle struct {
	*site
	session job.ID
	hints   chan coord.Hint
}

func newIdle(s *site) *idle {
	s.Helper()
	w := &idle{site: s, session: s.worker(time.Minute), hints: make(chan coord.Hint, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.c.Bus().Run(ctx, "w", coord.Receiver{
			OnHint:       func(h coord.Hint) { w.hints <- h },
			OnSubscribed: sync.OnceFunc(func() { close(ready) }),
		})
	})
	s.Cleanup(func() { cancel(); wg.Wait() })
	<-ready
	w.register()
	return w
}

func (w *idle) register() {
	w.Helper()
	if err := w.c.Bus().Register(w.Context(), "w", coord.Idle{Queue: "q", Free: 1000}); err != nil {
		w.Fatal(err)
	}
}

// heard reports the next hint, if there is one within a moment.
func (w *idle) heard() (coord.Hint, bool) {
	select {
	case h := <-w.hints:
		return h, true
	case <-time.After(50 * time.Millisecond):
		return coord.Hint{}, false
	}
}

func TestDelayedJobsStartAtTheirTimeThoughNobodyPolls(t *testing.T) {
	t.Parallel()
	for _, mode := range []testenv.RedisMode{testenv.RedisReal, testenv.RedisMini} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, mode)
			w := newIdle(s)
			s.run(s.sweeper(sweeper.Config{}))
			const n = 200
			s.enqueue(n, func(_ int, j *pgstore.NewJob) {
				j.Delay = 600*time.Millisecond + rand.N(2*time.Second)
				j.Priority = 1 + rand.IntN(9)
			})
			var late []time.Duration
			for deadline := time.After(10 * time.Second); len(late) < n; {
				select {
				case <-w.hints:
				case <-deadline:
					t.Fatalf("%d of %d jobs started", len(late), n)
				}
				w.register()
				for _, r := range s.claim(w.session, n) {
					late = append(late, r.ClaimedAt.Sub(r.ReadyAt))
				}
			}
			slices.Sort(late)
			t.Logf("started after their time: p50 %v, p99 %v", late[n/2], late[n*99/100])
			if late[n/2] > 50*time.Millisecond || late[n*99/100] > 300*time.Millisecond {
				t.Errorf("started after their time: p50 %v, p99 %v, want at most 50ms and 300ms", late[n/2], late[n*99/100])
			}
		})
	}
}

func TestAJobWhoseHintWasLostIsAnnouncedWithItsTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisMini)
	w := newIdle(s)
	sw := s.sweeper(sweeper.Config{})
	ids := s.enqueue(3)
	testenv.Eventually(t, time.Second, func() bool { return s.duty(sw, "wake") > 0 }, "nothing is announced")
	h, ok := w.heard()
	if !ok || h.Queue != "q" || h.Count != 3 || !h.ReadyAt.Equal(s.row(ids[0]).ReadyAt) {
		t.Errorf("hint %+v, %v", h, ok)
	}
}

func TestAStragglerIsAnnouncedFromTheStartOfItsQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisMini)
	w := newIdle(s)
	sw := s.sweeper(sweeper.Config{})
	s.enqueue(1200, func(_ int, j *pgstore.NewJob) { j.Kind = "foreign" }) // more than a page to leave alone
	id := s.enqueue(1)[0]
	s.exec(`UPDATE weir.live SET ready_at = ready_at - interval '1 hour'`)
	if n := s.duty(sw, "wake"); n != 0 {
		t.Errorf("wake looks at %d old rows", n)
	}
	if n := s.duty(sw, "stragglers"); n != 1 {
		t.Errorf("announced %d, want the one of a known kind", n)
	}
	if h, ok := w.heard(); !ok || !h.ReadyAt.Equal(s.row(id).ReadyAt) {
		t.Errorf("hint %+v, %v", h, ok)
	}
	if n := s.duty(sw, "stragglers"); n != 0 {
		t.Errorf("announced %d again at once", n)
	}
}

// All that could run it are busy, and a slot that is freed does not make its worker look behind its scan position.
func TestAStragglerThatMetNoIdleWorkerIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisMini)
	s.worker(time.Minute) // in no idle set
	sw := s.sweeper(sweeper.Config{})
	s.enqueue(2)
	s.exec(`UPDATE weir.live SET ready_at = ready_at - interval '1 hour'`)
	for range 3 {
		if n := s.duty(sw, "stragglers"); n != 2 {
			t.Errorf("announced %d, want 2: nobody has been told", n)
		}
	}
}

func TestWhatNobodyCanRunWakesNobody(t *testing.T) {
	t.Parallel()
	cases := map[string]func(s *site){
		"an unknown kind": func(s *site) { s.exec(`UPDATE weir.live SET kind = 'foreign'`) },
		"a paused queue":  func(s *site) { s.exec(`INSERT INTO weir.queues (name, paused_at) VALUES ('q', now())`) },
		"a paused kind":   func(s *site) { s.exec(`INSERT INTO weir.kinds (name, paused_at) VALUES ('k', now())`) },
		"no live worker":  func(s *site) { s.exec(`UPDATE weir.sessions SET lease_until = now() - interval '1 s'`) },
		"an expired job":  func(s *site) { s.exec(`UPDATE weir.live SET expires_at = now() - interval '1 s'`) },
		"a running job":   func(s *site) { s.claim(s.worker(time.Minute), 10) },
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, testenv.RedisMini)
			s.worker(time.Minute)
			s.enqueue(3)
			prepare(s)
			s.exec(`UPDATE weir.live SET ready_at = now() - interval '500 ms'`)
			sw := s.sweeper(sweeper.Config{})
			if n := s.duty(sw, "wake"); n != 0 {
				t.Errorf("wake announced %d", n)
			}
			s.exec(`UPDATE weir.live SET ready_at = now() - interval '5 s'`)
			if n := s.duty(sw, "stragglers"); n != 0 {
				t.Errorf("stragglers announced %d", n)
			}
		})
	}
}

// A queue with a limit wakes for as many jobs as may start, however many are due: the others would look in vain.
func TestAFullQueueWakesNobodyAndOneWithRoomAFew(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		limit pgstore.QueueLimit
		run   int
		want  int
	}{
		"no limit":                 {limit: pgstore.QueueLimit{Name: "other", N: 1}, run: 5, want: 20},
		"a limit with room":        {limit: pgstore.QueueLimit{Name: "q", N: 8}, run: 5, want: 3},
		"a limit that is full":     {limit: pgstore.QueueLimit{Name: "q", N: 5}, run: 5},
		"a limit that was lowered": {limit: pgstore.QueueLimit{Name: "q", N: 2}, run: 5},
		"a rate with room":         {limit: pgstore.QueueLimit{Name: "q", Rate: 4, Per: time.Hour}, want: 4},
		"a rate below the limit":   {limit: pgstore.QueueLimit{Name: "q", N: 10, Rate: 4, Per: time.Hour}, want: 4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, testenv.RedisMini)
			w := newIdle(s)
			if c.run > 0 {
				s.enqueue(c.run)
				s.claim(w.session, c.run)
			}
			s.enqueue(20)
			if err := s.store.SetQueueLimit(t.Context(), c.limit, false); err != nil {
				t.Fatal(err)
			}
			for duty, age := range map[string]string{"wake": "500 ms", "stragglers": "5 s"} {
				sw := s.sweeper(sweeper.Config{})
				s.exec(`UPDATE weir.live SET ready_at = now() - $1::interval WHERE state = 0`, age)
				if n := s.duty(sw, duty); n != c.want {
					t.Errorf("%s announced %d, want %d", duty, n, c.want)
				}
				if h, ok := w.heard(); ok != (c.want > 0) || ok && h.Count != c.want {
					t.Errorf("%s: hint %+v, %v, want one of %d", duty, h, ok, c.want)
				}
				w.register()
			}
		})
	}
}
