package client_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
)

// heard collects the hints that a client offers to the workers of its process.
type heard struct {
	mu    sync.Mutex
	hints []coord.Hint
}

func listen(c rig) *heard {
	h := &heard{}
	c.OnLocalWake(func(hint coord.Hint) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.hints = append(h.hints, hint)
		return true
	})
	return h
}

func (h *heard) all() []coord.Hint {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]coord.Hint(nil), h.hints...)
}

func TestAJobExistsExactlyIfItsTransactionCommits(t *testing.T) { // B07, B08
	t.Parallel()
	c := open(t)
	begin := func() pgx.Tx {
		tx, err := c.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	enqueue := func(tx pgx.Tx) job.ID {
		e, err := c.EnqueueTx(t.Context(), tx, welcome{})
		if err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	var want []job.ID

	tx := begin()
	id := enqueue(tx)
	if n := c.count(t, "live", "id = $1", id); n != 0 {
		t.Error("the job is seen before the commit")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = append(want, id)

	tx = begin()
	enqueue(tx)
	_ = tx.Rollback(t.Context())

	tx = begin() // rolled back to a savepoint
	want = append(want, enqueue(tx))
	inner, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enqueue(inner)
	_ = inner.Rollback(t.Context())
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}

	tx = begin() // the connection is dropped
	enqueue(tx)
	_ = tx.Conn().Close(t.Context())
	_ = tx.Rollback(t.Context())

	if n := c.count(t, "live", "true"); n != len(want) {
		t.Errorf("%d jobs are live, want %d", n, len(want))
	}
	for _, id := range want {
		if n := c.count(t, "live", "id = $1", id); n != 1 {
			t.Errorf("job %s is not there", id)
		}
	}
}

func TestAfterABareEnqueueTxTheHintIsEarly(t *testing.T) {
	t.Parallel()
	c := open(t)
	h := listen(c)
	tx, err := c.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.EnqueueManyTx(t.Context(), tx, []job.Spec{{Args: welcome{}}, {Args: welcome{}}, {Args: report{}}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	hints := h.all()
	if len(hints) != 2 {
		t.Fatalf("got %+v", hints)
	}
	for _, hint := range hints {
		want := map[string]int{"default": 2, "reports": 1}[hint.Queue]
		if !hint.Early || hint.Count != want || hint.ReadyAt.IsZero() || hint.Kind == "" {
			t.Errorf("got %+v", hint)
		}
	}
}

func TestInTxWakesAfterTheCommit(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	h := listen(c)
	err := c.InTx(t.Context(), func(tx pgx.Tx) error {
		for range 3 {
			if _, err := c.EnqueueTx(t.Context(), tx, welcome{}); err != nil {
				return err
			}
		}
		inner, err := tx.Begin(t.Context())
		if err != nil {
			return err
		}
		if _, err := c.EnqueueTx(t.Context(), inner, welcome{}); err != nil {
			return err
		}
		if err := inner.Commit(t.Context()); err != nil {
			return err
		}
		if _, err := c.EnqueueTx(t.Context(), tx, welcome{}, job.Options{Delay: time.Hour}); err != nil {
			return err
		}
		if hints := h.all(); len(hints) != 0 {
			t.Errorf("before the commit: %+v", hints)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	hints := h.all()
	if len(hints) != 1 || hints[0].Early || hints[0].Count != 4 || hints[0].Queue != "default" || hints[0].Kind != "mail.welcome" {
		t.Errorf("got %+v", hints)
	}
}

func TestInTxRollsBackWhenItsFunctionDoesNotReturnNil(t *testing.T) {
	t.Parallel()
	c := open(t)
	h := listen(c)
	wrong := errors.New("wrong")
	ctx, cancel := context.WithCancel(t.Context())
	inTx := func(ctx context.Context, end func() error) (err error) {
		return c.InTx(ctx, func(tx pgx.Tx) error {
			if _, err := c.EnqueueTx(t.Context(), tx, welcome{}); err != nil {
				t.Error(err)
			}
			return end()
		})
	}
	if err := inTx(t.Context(), func() error { return wrong }); err != wrong {
		t.Errorf("an error: got %v", err)
	}
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("a panic: got %v", p)
			}
		}()
		_ = inTx(t.Context(), func() error { panic("boom") })
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = inTx(t.Context(), func() error { runtime.Goexit(); return nil })
	}()
	<-done
	if err := inTx(ctx, func() error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: got %v", err)
	}
	if n, hints := c.count(t, "jobs", "true"), h.all(); n != 0 || len(hints) != 0 {
		t.Errorf("%d jobs, %d hints", n, len(hints))
	}
	if n := c.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

func TestATransactionThatCannotBeUsedIsAnErrorThatIsKnown(t *testing.T) { // B104
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	for name, spoil := range map[string]func(pgx.Tx){
		"finished": func(tx pgx.Tx) { _ = tx.Rollback(t.Context()) },
		"aborted":  func(tx pgx.Tx) { _, _ = tx.Exec(t.Context(), "SELECT 1/0") },
	} {
		tx, err := c.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		spoil(tx)
		_, err = c.EnqueueTx(t.Context(), tx, welcome{})
		var unknown *client.UnknownError
		if err == nil || errors.As(err, &unknown) {
			t.Errorf("%s: got %v", name, err)
		}
		_ = tx.Rollback(t.Context())
	}
	// A failed statement that the caller swallows makes the commit a rollback.
	err := c.InTx(t.Context(), func(tx pgx.Tx) error {
		if _, err := c.EnqueueTx(t.Context(), tx, welcome{}); err != nil {
			t.Error(err)
		}
		_, _ = tx.Exec(t.Context(), "SELECT 1/0")
		return nil
	})
	var unknown *client.UnknownError
	if !errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
	if n := c.count(t, "jobs", "true"); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestACommitIsNotCutOffByACallerWhoLeaves(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.exec(t, `CREATE FUNCTION %[1]s.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON %[1]s.live DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %[1]s.slow()`)
	h := listen(c)
	ctx, cancel := context.WithCancel(t.Context())
	var id job.ID
	began := time.Now()
	err := c.InTx(ctx, func(tx pgx.Tx) error {
		e, err := c.EnqueueTx(ctx, tx, welcome{})
		id = e.ID
		time.AfterFunc(20*time.Millisecond, cancel)
		return err
	})
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) || fmt.Sprint(unknown.IDs) != fmt.Sprint([]job.ID{id}) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 250*time.Millisecond {
		t.Errorf("the caller waited for %v", took)
	}
	testenv.Eventually(t, 5*time.Second, func() bool { return len(h.all()) == 1 }, "no hint after the commit")
	if n := c.count(t, "live", "id = $1", id); n != 1 {
		t.Errorf("%d rows", n)
	}
}
