package sweeper_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// site is a namespace with a client.
type site struct {
	*testing.T
	pool  *pgxpool.Pool
	c     *client.Client
	store *pgstore.Store
}

func newSite(t *testing.T, mode testenv.RedisMode) *site {
	t.Helper()
	pool, ns := testenv.Schema(t)
	return siteOn(t, pool, ns, mode)
}

func siteOn(t *testing.T, pool *pgxpool.Pool, ns string, mode testenv.RedisMode) *site {
	t.Helper()
	// A loaded machine is no silent Redis.
	c, err := client.New(pool, client.Config{Namespace: ns, Redis: testenv.RedisClient(t, mode), RedisTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &site{T: t, pool: pool, c: c, store: c.Store()}
}

// sweeper returns one that does nothing by itself yet.
func (s *site) sweeper(cfg sweeper.Config) *sweeper.Sweeper {
	s.Helper()
	sw, err := sweeper.New(s.c, cfg)
	if err != nil {
		s.Fatal(err)
	}
	return sw
}

// run runs sw until the test ends.
func (s *site) run(sw *sweeper.Sweeper) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sw.Run(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error("run: ", err)
		}
	})
}

func (s *site) duty(sw *sweeper.Sweeper, name string) int {
	s.Helper()
	n, err := sw.RunDuty(s.Context(), name)
	if err != nil {
		s.Fatalf("%s: %v", name, err)
	}
	return n
}

// enqueue adds n jobs of kind "k" and returns their ids.
func (s *site) enqueue(n int, edit ...func(i int, j *pgstore.NewJob)) []job.ID {
	s.Helper()
	jobs, ids := make([]pgstore.NewJob, n), make([]job.ID, n)
	for i := range jobs {
		jobs[i] = pgstore.NewJob{ID: s.c.IDs().New(), Kind: "k", Queue: "q", Payload: []byte(`{"n":1}`), Priority: 5, MaxAttempts: 3}
		for _, f := range edit {
			f(i, &jobs[i])
		}
		ids[i] = jobs[i].ID
	}
	if _, err := s.store.Enqueue(s.Context(), jobs); err != nil {
		s.Error(err) // not Fatal: also called from goroutines
	}
	return ids
}

// worker opens a session that serves "q" and knows "k".
func (s *site) worker(lease time.Duration) job.ID {
	s.Helper()
	id := s.c.IDs().New()
	_, err := s.store.OpenSession(s.Context(), pgstore.Session{
		ID: id, Role: "worker", Lease: lease, Host: "h", PID: 1, Queues: []string{"q"}, Kinds: []string{"k"}, Slots: 1000,
	})
	if err != nil {
		s.Fatal(err)
	}
	return id
}

// claim takes up to n jobs.
func (s *site) claim(session job.ID, n int) []job.Row {
	s.Helper()
	got, err := s.store.Claim(s.Context(), pgstore.ClaimRequest{
		Session: session, Queues: []pgstore.ClaimQueue{{Name: "q", Slots: n}}, Kinds: []string{"k"}, Suspect: true,
	})
	if err != nil {
		s.Error("claim: ", err)
	}
	return got.Jobs
}

func (s *site) finish(session job.ID, rows []job.Row) int {
	s.Helper()
	done := make([]pgstore.Completion, len(rows))
	for i, r := range rows {
		done[i] = pgstore.Completion{Held: pgstore.Held{ID: r.ID, Fence: r.Fence}}
	}
	got, err := s.store.Finish(s.Context(), session, done)
	if err != nil {
		s.Error("finish: ", err)
	}
	return len(got)
}

// die makes the database see a session as given away.
func (s *site) die(session job.ID) {
	s.Helper()
	s.exec(`UPDATE weir.sessions SET dead_at = clock_timestamp() WHERE id = $1`, [16]byte(session))
}

func (s *site) row(id job.ID) job.Row {
	s.Helper()
	r, err := s.store.Job(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func (s *site) sql(text string) string {
	return strings.ReplaceAll(text, "weir.", s.store.Schema()+".")
}

func (s *site) exec(text string, args ...any) {
	s.Helper()
	if _, err := s.pool.Exec(s.Context(), s.sql(text), args...); err != nil {
		s.Fatal(err)
	}
}

func (s *site) count(text string, args ...any) (n int) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), s.sql(text), args...).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}
