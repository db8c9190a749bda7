package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// sum is a typed result.
type sum struct {
	Lines int `json:"lines"`
}

func TestAwaitReturnsTheResultOnceTheJobHasEnded(t *testing.T) {
	t.Parallel()
	c := open(t)
	session := c.session(t)
	id := c.enqueue(t, welcome{})
	type answer struct {
		sum sum
		err error
	}
	done := make(chan answer, 1)
	go func() {
		s, err := client.Await[sum](t.Context(), c.Client, id)
		done <- answer{s, err}
	}()
	rows := c.claim(t, session, "default", "mail.welcome")
	select {
	case a := <-done:
		t.Fatalf("before the end: %+v", a)
	default:
	}
	c.complete(t, session, rows[0], `{"lines":42}`)
	if a := <-done; a.err != nil || a.sum.Lines != 42 {
		t.Errorf("got %+v", a)
	}
	if _, err := client.Await[string](t.Context(), c.Client, id); err == nil {
		t.Error("a result of another type was decoded")
	}
}

func TestAwaitOfAJobWithoutAResultGivesTheZeroValue(t *testing.T) {
	t.Parallel()
	c := open(t)
	session := c.session(t)
	id := c.enqueue(t, welcome{})
	c.complete(t, session, c.claim(t, session, "default", "mail.welcome")[0], "")
	if s, err := client.Await[*sum](t.Context(), c.Client, id); s != nil || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestAwaitSaysWhyAJobDidNotComplete(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *client.Config) { cfg.Actor = "bob" })
	id := c.enqueue(t, welcome{})
	if err := c.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err := client.Await[sum](t.Context(), c.Client, id)
	var failed *job.FailedError
	if !errors.As(err, &failed) || *failed != (job.FailedError{ID: id, Kind: "mail.welcome", State: job.Cancelled, Message: "cancelled by bob"}) {
		t.Errorf("got %+v", err)
	}
}

func TestAwaitOfNoJobIsNotFound(t *testing.T) {
	t.Parallel()
	c := open(t)
	if _, err := client.Await[sum](within(t, 5*time.Second), c.Client, idAt(time.Now())); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	id := c.enqueue(t, welcome{})
	go func() { _ = c.Delete(context.Background(), id) }()
	if _, err := client.Await[sum](within(t, 5*time.Second), c.Client, id); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("deleted meanwhile: got %v", err)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := open(t)
	id := c.enqueue(t, welcome{})
	began := time.Now()
	_, err := client.Await[sum](within(t, 30*time.Millisecond), c.Client, id)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*time.Second {
		t.Errorf("got %v after %v", err, time.Since(began))
	}
}

func TestAwaitOutlivesALostConnection(t *testing.T) {
	t.Parallel()
	pool, proxy := proxied(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	_, namespace := testenv.Schema(t)
	c := clientOn(t, pool, namespace)
	id := c.enqueue(t, welcome{})
	proxy.LoseAnswerTo("stmtcache") // the next statement that is prepared: Await's first
	done := make(chan error, 1)
	go func() {
		_, err := client.Await[sum](within(t, 10*time.Second), c.Client, id)
		done <- err
	}()
	testenv.Eventually(t, 5*time.Second, func() bool { return proxy.Connections() > 1 }, "no new connection")
	if err := c.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	var failed *job.FailedError
	if err := <-done; !errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
}
