package worker_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

func TestMain(m *testing.M) {
	if code, isChild := worker.ServeChild(buildChild); isChild { // the tests of modes execute this program again
		os.Exit(code)
	}
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		_ = flag.Set("test.parallel", "8") // most of these tests wait most of the time
	}
	testenv.Main(m)
}

// soon is how long a test waits for what takes milliseconds on a machine that does nothing else.
const soon = 30 * time.Second

// task is the args type of the tests.
type task struct {
	N    int    `json:"n,omitempty"`
	Note string `json:"note,omitempty"`
}

func (task) Kind() string { return "task" }

// other is a second kind.
type other struct {
	N int `json:"n,omitempty"`
}

func (other) Kind() string { return "other" }

// rig is a client on a fresh schema, and what a test asks of the database behind its back.
type rig struct {
	*client.Client
	t         testing.TB
	pool      *pgxpool.Pool
	namespace string
}

// setup returns a rig in a mode.
func setup(t testing.TB, mode testenv.RedisMode) *rig {
	t.Helper()
	pool, namespace := testenv.Schema(t)
	return on(t, mode, pool, namespace)
}

// on returns a rig on a pool and a namespace that another rig may share, as another process does.
func on(t testing.TB, mode testenv.RedisMode, pool *pgxpool.Pool, namespace string) *rig {
	t.Helper()
	// A machine that is busy with other tests must not lose hints: here they are what is tested.
	cfg := client.Config{Namespace: namespace, Redis: testenv.RedisClient(t, mode), RedisTimeout: 2 * time.Second}
	c, err := client.New(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &rig{c, t, pool, namespace}
}

// inModes runs a test with Redis, with miniredis and without.
func inModes(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	for _, mode := range testenv.Modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			f(t, setup(t, mode))
		})
	}
}

// shortLease is for tests that wait for its end; with others a machine that stands still would end it.
func shortLease(c *worker.Config) { c.Lease = 3 * time.Second }

// worker returns a worker that polls and renews often; change tunes it.
func (r *rig) worker(change ...func(*worker.Config)) *worker.Worker {
	r.t.Helper()
	cfg := worker.Config{
		Queues: []worker.Queue{{Name: "default", Slots: 5}}, Lease: 8 * time.Second, Renew: 300 * time.Millisecond,
		Poll: time.Second, Grace: time.Second, Logger: r.logger(),
	}
	for _, f := range change {
		f(&cfg)
	}
	w, err := worker.New(r.Client, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// logger returns one whose lines are shown if the test fails.
func (r *rig) logger() *slog.Logger {
	var out buffer
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Logf("the worker's log:\n%s", out.String())
		}
	})
	return slog.New(slog.NewTextHandler(&out, nil))
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// running is a worker whose Run is under way.
type running struct {
	*worker.Worker
	t     testing.TB
	stop  context.CancelFunc
	ended chan struct{}
	err   error
}

// run starts w. It is stopped when the test ends, if it was not before.
func (r *rig) run(w *worker.Worker) *running {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	u := &running{Worker: w, t: r.t, stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(u.ended)
		u.err = w.Run(ctx)
	}()
	r.t.Cleanup(func() { _ = u.close() })
	return u
}

// close ends Run and returns what it returned.
func (u *running) close() error {
	u.stop()
	return u.wait(20 * time.Second)
}

func (u *running) wait(limit time.Duration) error {
	select {
	case <-u.ended:
		return u.err
	case <-time.After(limit):
		u.t.Errorf("Run did not return within %v", limit)
		return errors.New("no end")
	}
}

// start runs a worker with one handler for task.
func (r *rig) start(f func(context.Context, *worker.Job[task]) error, change ...func(*worker.Config)) *running {
	r.t.Helper()
	w := r.worker(change...)
	worker.Handle(w, f)
	return r.run(w)
}

// add enqueues a job that must not fail.
func (r *rig) add(args job.Args, options ...job.Options) job.ID {
	r.t.Helper()
	e, err := r.Enqueue(r.t.Context(), args, options...)
	if err != nil {
		r.t.Fatal(err)
	}
	return e.ID
}

// reaches waits until the job is in a state, and returns it.
func (r *rig) reaches(id job.ID, want job.State) job.Row {
	r.t.Helper()
	return r.until(id, "state "+string(want), func(row job.Row) bool { return row.State == want })
}

// until waits for a job to meet a condition, and returns it.
func (r *rig) until(id job.ID, what string, cond func(job.Row) bool) (row job.Row) {
	r.t.Helper()
	testenv.Eventually(r.t, soon, func() bool {
		var err error
		row, err = r.Job(context.Background(), id)
		return err == nil && cond(row)
	}, "job %v has not reached %s; it is %+v", id, what, &row)
	return row
}

// exec runs a statement in which %s is the schema.
func (r *rig) exec(statement string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(context.Background(), fmt.Sprintf(statement, r.namespace), args...); err != nil {
		r.t.Fatal(err)
	}
}

// count returns what a query that counts, in which %s is the schema, gives.
func (r *rig) count(query string, args ...any) (n int) {
	r.t.Helper()
	if err := r.pool.QueryRow(context.Background(), fmt.Sprintf(query, r.namespace), args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// await waits until cond is true.
func (r *rig) await(what string, cond func() bool) {
	r.t.Helper()
	testenv.Eventually(r.t, soon, cond, "%s", what)
}

// receive takes one value from ch in time.
func receive[T any](t testing.TB, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(soon):
		t.Fatalf("no %s within %v", what, soon)
	}
	return v
}

// log collects what handlers and hooks say, in order.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// gate is a handler that tells of its start and waits to be let go, or for its context.
type gate struct {
	started chan job.Row
	free    chan struct{}
}

func newGate() *gate { return &gate{make(chan job.Row, 1000), make(chan struct{})} }

func (g *gate) handle(ctx context.Context, j *worker.Job[task]) error {
	g.started <- j.Row
	select {
	case <-g.free:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// exampleT lets an example use what is made for tests.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                   {}
func (t *exampleT) Cleanup(f func())          { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Error(args ...any)         { panic(fmt.Sprint(args...)) }
func (t *exampleT) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (t *exampleT) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

func (t *exampleT) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}
