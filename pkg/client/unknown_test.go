package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// lossy returns a client whose connections lead through a proxy.
func lossy(t *testing.T) (rig, *testenv.Proxy) {
	t.Helper()
	pool, proxy := proxied(t)
	_, namespace := testenv.Schema(t)
	c := clientOn(t, pool, namespace)
	c.enqueue(t, welcome{Note: "first"}) // the statement is prepared, the clock is known
	return c, proxy
}

func TestALostAnswerToEnqueueIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	c, proxy := lossy(t)
	proxy.LoseAnswerTo("swallowed")
	_, err := c.Enqueue(t.Context(), welcome{Note: "swallowed"})
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || len(unknown.IDs) != 1 {
		t.Fatalf("got %v", err)
	}
	e, err := c.Enqueue(t.Context(), welcome{Note: "swallowed"}, job.Options{ID: unknown.IDs[0]})
	if err != nil || e.ID != unknown.IDs[0] || !e.Duplicate {
		t.Errorf("again: got %v, %v", e, err)
	}
	if n := c.count(t, "live", "true"); n != 2 {
		t.Errorf("%d jobs are live", n)
	}
}

func TestALostAnswerToManyIsAnUnknownOutcomeOfAll(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		jobs   int
		marker string
	}{
		"one statement":                     {10, "swallowed"},
		"the commit of several statements":  {1500, "commit"},
		"one of several before the commit ": {1500, "swallowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, proxy := lossy(t)
			jobs := make([]job.Spec, test.jobs)
			for i := range jobs {
				jobs[i].Args = welcome{UserID: int64(i), Note: "swallowed"}
			}
			proxy.LoseAnswerTo(test.marker)
			_, err := c.EnqueueMany(t.Context(), jobs)
			var unknown *client.UnknownError
			if test.jobs > 1000 && test.marker != "commit" {
				if err != nil { // nothing can have been stored: it was tried again
					t.Fatal(err)
				}
			} else if !errors.As(err, &unknown) || len(unknown.IDs) != test.jobs {
				t.Fatalf("got %v", err)
			} else {
				for i := range jobs {
					jobs[i].Options.ID = unknown.IDs[i]
				}
				got, err := c.EnqueueMany(t.Context(), jobs)
				if err != nil || !got[0].Duplicate || got[test.jobs-1].ID != unknown.IDs[test.jobs-1] {
					t.Fatalf("again: %v", err)
				}
			}
			if n := c.count(t, "live", "true"); n != 1+test.jobs {
				t.Errorf("%d jobs are live", n)
			}
		})
	}
}

func TestALostAnswerToTheCommitOfInTxIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	c, proxy := lossy(t)
	var id job.ID
	err := c.InTx(t.Context(), func(tx pgx.Tx) error {
		e, err := c.EnqueueTx(t.Context(), tx, welcome{})
		id = e.ID
		proxy.LoseAnswerTo("commit")
		return err
	})
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || len(unknown.IDs) != 1 || unknown.IDs[0] != id {
		t.Fatalf("got %v", err)
	}
	if n := c.count(t, "live", "id = $1", id); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestADatabaseThatIsAwayFailsEnqueuesOnceTheTimeoutIsOver(t *testing.T) {
	t.Parallel()
	c := nowhere(t)
	for name, call := range map[string]func() error{
		"Enqueue":     func() error { _, err := c.Enqueue(t.Context(), welcome{}); return err },
		"EnqueueMany": func() error { _, err := c.EnqueueMany(t.Context(), []job.Spec{{Args: welcome{}}}); return err },
		"InTx":        func() error { return c.InTx(t.Context(), func(pgx.Tx) error { return nil }) },
		"Job":         func() error { _, err := c.Job(t.Context(), job.ID{1}); return err },
		"Cancel":      func() error { return c.Cancel(t.Context(), job.ID{1}) },
	} {
		began := time.Now()
		err := call()
		var unknown *client.UnknownError
		if err == nil || errors.As(err, &unknown) {
			t.Errorf("%s: got %v", name, err)
		}
		if strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: the password is in %v", name, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

func TestEnqueueOutlivesABriefAbsenceOfTheDatabase(t *testing.T) {
	t.Parallel()
	away := true
	pool := poolBy(t, func(cfg *pgxpool.Config) {
		cfg.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
			if away {
				conn.Host, conn.Port, away = "127.0.0.1", 1, false
			}
			return nil
		}
		cfg.MaxConns = 1
	})
	_, namespace := testenv.Schema(t)
	c := clientOn(t, pool, namespace)
	c.enqueue(t, welcome{}) // learns the clock at the second try
	pool.Reset()
	away = true
	c.enqueue(t, welcome{})
	if n := c.count(t, "jobs", "true"); n != 2 || away {
		t.Errorf("%d jobs", n)
	}
}

func TestAFullPoolIsNoUnknownOutcome(t *testing.T) {
	t.Parallel()
	pool := poolBy(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	_, namespace := testenv.Schema(t)
	c := clientOn(t, pool, namespace, func(cfg *client.Config) { cfg.Timeout = 200 * time.Millisecond })
	c.enqueue(t, welcome{})
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Enqueue(t.Context(), welcome{})
	conn.Release()
	var unknown *client.UnknownError
	if err == nil || errors.As(err, &unknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	c.enqueue(t, welcome{})
}

func TestAReadOnlyServerIsGivenUpForAFreshConnection(t *testing.T) {
	t.Parallel()
	pool := poolBy(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 4 })
	_, namespace := testenv.Schema(t)
	c := clientOn(t, pool, namespace)
	c.enqueue(t, welcome{})
	conns := make([]*pgxpool.Conn, 4)
	for i := range conns {
		var err error
		if conns[i], err = pool.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := conns[i].Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
			t.Fatal(err)
		}
	}
	for _, conn := range conns {
		conn.Release()
	}
	c.enqueue(t, welcome{})
	if _, err := c.EnqueueMany(t.Context(), []job.Spec{{Args: welcome{}}}); err != nil {
		t.Error(err)
	}
}

func TestAServerThatStaysReadOnlyIsATypedError(t *testing.T) {
	t.Parallel()
	pool := poolBy(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	_, namespace := testenv.Schema(t)
	c := clientOn(t, pool, namespace, func(cfg *client.Config) { cfg.Timeout = 200 * time.Millisecond })
	if _, err := c.Enqueue(t.Context(), welcome{}); !errors.Is(err, client.ErrReadOnly) {
		t.Errorf("Enqueue: got %v", err)
	}
	if _, err := c.EnqueueMany(t.Context(), []job.Spec{{Args: welcome{}}}); !errors.Is(err, client.ErrReadOnly) {
		t.Errorf("EnqueueMany: got %v", err)
	}
	err := c.InTx(t.Context(), func(tx pgx.Tx) error {
		_, err := c.EnqueueTx(t.Context(), tx, welcome{})
		return err
	})
	if !errors.Is(err, client.ErrReadOnly) {
		t.Errorf("EnqueueTx: got %v", err)
	}
}

func TestAMissingSchemaIsAKnownErrorAtOnce(t *testing.T) {
	t.Parallel()
	c := clientOn(t, testenv.Pool(t, testenv.Postgres(t)), testenv.Namespace(t))
	_, one := c.Enqueue(t.Context(), welcome{})
	jobs := make([]job.Spec, 1500)
	for i := range jobs {
		jobs[i].Args = welcome{}
	}
	_, many := c.EnqueueMany(within(t, 5*time.Second), jobs)
	for name, err := range map[string]error{"one": one, "many": many} {
		var unknown *client.UnknownError
		if !errors.Is(err, pgstore.ErrNoSchema) || errors.As(err, &unknown) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestNoErrorQuotesAPayload(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.exec(t, `ALTER TABLE %s.jobs ADD CONSTRAINT no_bad CHECK (payload->>'note' NOT LIKE 'secret%%')`)
	_, err := c.Enqueue(t.Context(), welcome{Note: "secret-4711"})
	if err == nil {
		t.Fatal("no error")
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := fmt.Sprintf("%+v %#v", e, e); strings.Contains(text, "4711") {
			t.Errorf("got %s", text)
		}
	}
}

func TestAfterCloseEveryCallIsRefused(t *testing.T) {
	t.Parallel()
	c := open(t)
	id := c.enqueue(t, welcome{})
	c.Close()
	c.Close()
	for name, call := range map[string]func() error{
		"Enqueue":     func() error { _, err := c.Enqueue(t.Context(), welcome{}); return err },
		"EnqueueMany": func() error { _, err := c.EnqueueMany(t.Context(), nil); return err },
		"InTx":        func() error { return c.InTx(t.Context(), nil) },
		"Wake":        func() error { return c.Wake(t.Context(), "default") },
		"Job":         func() error { _, err := c.Job(t.Context(), id); return err },
		"Cancel":      func() error { return c.Cancel(t.Context(), id) },
		"Retry":       func() error { return c.Retry(t.Context(), id) },
		"Delete":      func() error { return c.Delete(t.Context(), id) },
		"Pause":       func() error { return c.Pause(t.Context(), client.Queue("default")) },
		"Await":       func() error { _, err := client.Await[int](t.Context(), c.Client, id); return err },
		"RetryMany":   func() error { _, err := c.RetryMany(t.Context(), client.Filter{Queue: "x"}); return err },
		"Jobs": func() error {
			for _, err := range c.Jobs(t.Context(), client.Filter{}) {
				return err
			}
			return nil
		},
	} {
		if err := call(); !errors.Is(err, client.ErrClosed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
