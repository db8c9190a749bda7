package client_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
)

// idle is a worker of another process: it stands idle in queues and collects what it is told.
type idle struct {
	bus      *coord.Bus
	hints    chan coord.Hint
	controls chan coord.Control
}

func idler(t *testing.T, rdb redis.UniversalClient, namespace string, queues ...string) *idle {
	t.Helper()
	w := &idle{
		bus:   coord.New(rdb, coord.Config{Namespace: namespace, Timeout: 2 * time.Second}),
		hints: make(chan coord.Hint, 1000), controls: make(chan coord.Control, 1000),
	}
	ctx, cancel := context.WithCancel(context.Background())
	subscribed := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = w.bus.Run(ctx, "worker", coord.Receiver{
			OnHint:       func(h coord.Hint) { w.hints <- h },
			OnControl:    func(c coord.Control) { w.controls <- c },
			OnSubscribed: sync.OnceFunc(func() { close(subscribed) }),
		})
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	select {
	case <-subscribed:
	case <-time.After(10 * time.Second):
		t.Fatal("no subscription")
	}
	w.register(t, queues...)
	return w
}

func (w *idle) register(t *testing.T, queues ...string) {
	t.Helper()
	w.registerFree(t, 100, queues...)
}

func (w *idle) registerFree(t *testing.T, free int, queues ...string) {
	t.Helper()
	for _, queue := range queues {
		if err := w.bus.Register(t.Context(), "worker", coord.Idle{Queue: queue, Free: free}); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *idle) next(t *testing.T) coord.Hint {
	t.Helper()
	select {
	case h := <-w.hints:
		return h
	case <-time.After(5 * time.Second):
		t.Fatal("no hint")
		return coord.Hint{}
	}
}

// told returns a client with Redis and an idle worker of queue mail, in each mode that has a Redis.
func told(t *testing.T, test func(t *testing.T, c rig, w *idle)) {
	t.Helper()
	for _, mode := range []testenv.RedisMode{testenv.RedisReal, testenv.RedisMini} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			rdb := testenv.RedisClient(t, mode)
			c := open(t, func(cfg *client.Config) { cfg.Redis, cfg.RedisTimeout = rdb, 2*time.Second })
			test(t, c, idler(t, rdb, c.namespace, "mail"))
		})
	}
}

func TestAnIdleWorkerIsToldOfNewJobs(t *testing.T) {
	t.Parallel()
	told(t, func(t *testing.T, c rig, w *idle) {
		id := c.enqueue(t, welcome{}, job.Options{Queue: "mail"})
		row, err := c.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if h := w.next(t); h.Queue != "mail" || h.Kind != "mail.welcome" || h.Count != 1 || h.Early ||
			h.ReadyAt.After(row.ReadyAt) || row.ReadyAt.Sub(h.ReadyAt) > time.Second {
			t.Errorf("one job: got %+v, ready at %v", h, row.ReadyAt)
		}

		w.register(t, "mail")
		c.enqueue(t, welcome{}, job.Options{Queue: "mail", Delay: time.Hour}) // tells nobody
		_, err = c.EnqueueMany(t.Context(), []job.Spec{
			{Args: welcome{}, Options: job.Options{Queue: "mail"}}, {Args: report{}, Options: job.Options{Queue: "mail"}},
			{Args: welcome{}, Options: job.Options{Queue: "mail", Delay: time.Minute}}, {Args: welcome{}, Options: job.Options{ID: id}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if h := w.next(t); h.Queue != "mail" || h.Kind != "" || h.Count != 2 {
			t.Errorf("jobs of two kinds: got %+v", h)
		}

		w.register(t, "mail")
		if err := c.Wake(t.Context(), "mail", "other"); err != nil {
			t.Fatal(err)
		}
		if h := w.next(t); h.Queue != "mail" || !h.ReadyAt.IsZero() {
			t.Errorf("Wake: got %+v", h)
		}
	})
}

func TestAHintSaysWhetherItsTransactionHasCommitted(t *testing.T) {
	t.Parallel()
	told(t, func(t *testing.T, c rig, w *idle) {
		tx, err := c.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.EnqueueTx(t.Context(), tx, welcome{}, job.Options{Queue: "mail"}); err != nil {
			t.Fatal(err)
		}
		if h := w.next(t); !h.Early {
			t.Errorf("before a commit: got %+v", h)
		}
		_ = tx.Rollback(t.Context())

		w.register(t, "mail")
		err = c.InTx(t.Context(), func(tx pgx.Tx) error {
			_, err := c.EnqueueTx(t.Context(), tx, welcome{}, job.Options{Queue: "mail"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if h := w.next(t); h.Early {
			t.Errorf("after a commit: got %+v", h)
		}
	})
}

func TestOperatorsActsArePublished(t *testing.T) {
	t.Parallel()
	rdb := testenv.RedisClient(t, testenv.RedisMini)
	c := open(t, func(cfg *client.Config) { cfg.Redis, cfg.RedisTimeout = rdb, 2*time.Second })
	w := idler(t, rdb, c.namespace)
	session := c.session(t)
	id := c.enqueue(t, welcome{})
	c.claim(t, session, "default", "mail.welcome")
	waiting := c.enqueue(t, welcome{})
	for _, err := range []error{
		c.Pause(t.Context(), client.Queue("mail")), c.Resume(t.Context(), client.Kind("mail.welcome")), c.Cancel(t.Context(), id, waiting),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []coord.Control{{Verb: "pause", Queue: "mail"}, {Verb: "resume", Kind: "mail.welcome"}, {Verb: "cancel", ID: id.String()}}
	var got []coord.Control
	for range want {
		select {
		case control := <-w.controls:
			got = append(got, control)
		case <-time.After(5 * time.Second):
			t.Fatalf("got %+v", got)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAWorkerOfTheSameProcessIsWokenWithoutRedis(t *testing.T) {
	t.Parallel()
	rdb := testenv.RedisClient(t, testenv.RedisMini)
	c := open(t, func(cfg *client.Config) { cfg.Redis = rdb })
	w := idler(t, rdb, c.namespace, "default", "last")
	var got []coord.Hint
	remove := c.OnLocalWake(func(h coord.Hint) bool {
		got = append(got, h)
		return h.Kind == "mail.welcome"
	})
	c.enqueue(t, welcome{}) // taken
	c.enqueue(t, report{}, job.Options{Queue: "default"})
	if h := w.next(t); h.Kind != "report.daily" || h.Count != 1 {
		t.Errorf("got %+v from Redis", h)
	}
	w.register(t, "default")
	if _, err := c.EnqueueMany(t.Context(), []job.Spec{{Args: welcome{}}, {Args: welcome{}}, {Args: welcome{}}}); err != nil {
		t.Fatal(err)
	}
	if h := w.next(t); h.Kind != "mail.welcome" || h.Count != 2 {
		t.Errorf("of three jobs, one of them taken, Redis was told %+v", h)
	}
	remove()
	c.enqueue(t, welcome{}, job.Options{Queue: "last"})
	if h := w.next(t); h.Queue != "last" || h.Count != 1 {
		t.Errorf("after the worker left: got %+v", h)
	}
	if len(got) != 3 {
		t.Errorf("the worker was asked %d times: %+v", len(got), got)
	}
}

// counting counts the scripts that are run.
type counting struct {
	redis.UniversalClient
	scripts atomic.Int64
}

func (c *counting) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	c.scripts.Add(1)
	return c.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

func TestHintsThatFindNobodyGather(t *testing.T) {
	t.Parallel()
	rdb := &counting{UniversalClient: testenv.RedisClient(t, testenv.RedisMini)}
	c := open(t, func(cfg *client.Config) { cfg.Redis, cfg.RedisTimeout = rdb, 2*time.Second })
	c.enqueue(t, welcome{}) // learns the clock
	before, began := rdb.scripts.Load(), time.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if _, err := c.Enqueue(t.Context(), welcome{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if n, most := rdb.scripts.Load()-before, int64(took/(2*time.Millisecond))+2; n > most {
		t.Errorf("400 jobs in %v, nobody idle: %d scripts, want at most %d", took, n, most)
	}
}

func TestAWorkerThatComesWhileHintsGatherIsTold(t *testing.T) {
	t.Parallel()
	told(t, func(t *testing.T, c rig, w *idle) {
		for i := range 50 {
			c.enqueue(t, welcome{}, job.Options{Queue: "late"}) // nobody is idle: the next hint of this queue waits
			if i%2 == 0 {
				w.registerFree(t, 1, "late") // for one hint
			} else {
				w.registerFree(t, 1, "mail")
				c.enqueue(t, welcome{}, job.Options{Queue: "mail"}) // another queue: it need not wait
			}
			c.enqueue(t, welcome{}, job.Options{Queue: "late"})
			if h := w.next(t); h.Count < 1 || (h.Queue == "late") != (i%2 == 0) {
				t.Fatalf("got %+v", h)
			}
		}
	})
}

// silent is the address of a server that takes connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return listener.Addr().String()
}

func TestARedisThatIsSilentCostsProducersNothing(t *testing.T) { // B83
	t.Parallel()
	rdb := testenv.Client(t, "redis://"+silent(t)+"/0?max_retries=3000")
	c := open(t, func(cfg *client.Config) { cfg.Redis = rdb })
	with, without := c, clientOn(t, c.pool, c.namespace)
	median := func(c rig) time.Duration {
		took := make([]time.Duration, 51)
		for i := range took {
			began := time.Now()
			c.enqueue(t, welcome{})
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	base := median(without)
	// One wait for Redis would be 100 ms.
	if got := median(with); got > 2*base+20*time.Millisecond {
		t.Errorf("an enqueue takes %v, without Redis %v", got, base)
	}
	if err := c.InTx(t.Context(), func(tx pgx.Tx) error {
		began := time.Now()
		_, err := c.EnqueueTx(t.Context(), tx, welcome{})
		if took := time.Since(began); took > 2*base+50*time.Millisecond {
			t.Errorf("within a transaction it took %v", took)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := c.Wake(t.Context(), "default"); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("Wake: got %v", err)
	}
	began := time.Now()
	c.Close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}
