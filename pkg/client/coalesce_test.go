package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func TestConcurrentCallersShareStatements(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	release := c.hold(t)
	replies := []<-chan reply{c.start(t.Context(), welcome{})}
	c.held(t, 1)
	replies = append(replies, c.start(t.Context(), welcome{}))
	c.held(t, 2)
	for range 64 {
		replies = append(replies, c.start(t.Context(), welcome{}))
	}
	release()
	for _, done := range replies {
		if r := <-done; r.err != nil {
			t.Error(r.err)
		}
	}
	var transactions int
	query := fmt.Sprintf("SELECT count(DISTINCT xmin::text) FROM %s.jobs", c.namespace)
	if err := c.pool.QueryRow(t.Context(), query).Scan(&transactions); err != nil {
		t.Fatal(err)
	}
	// One before, the two that waited, and the 64: those that came in time went with one statement.
	if n := c.count(t, "jobs", "true"); n != 67 || transactions > 20 {
		t.Errorf("%d jobs in %d transactions", n, transactions)
	}
}

func TestABadJobFailsItsOwnCallerAlone(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.exec(t, `ALTER TABLE %s.jobs ADD CONSTRAINT no_bad CHECK (payload->>'note' IS DISTINCT FROM 'bad')`)
	c.exec(t, `CREATE FUNCTION %[1]s.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'not today'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON %[1]s.jobs FOR EACH ROW WHEN (NEW.payload->>'note' = 'refused')
		EXECUTE FUNCTION %[1]s.refuse()`)
	c.enqueue(t, welcome{})
	release := c.hold(t)
	plugs := []<-chan reply{c.start(t.Context(), welcome{})}
	c.held(t, 1)
	plugs = append(plugs, c.start(t.Context(), welcome{}))
	c.held(t, 2)
	replies := make([]<-chan reply, 64)
	notes := make([]string, len(replies))
	for i := range replies {
		switch i {
		case 20, 21, 60:
			notes[i] = "bad"
		case 40:
			notes[i] = "refused"
		}
		replies[i] = c.start(t.Context(), welcome{UserID: int64(i), Note: notes[i]})
	}
	release()
	for _, done := range plugs {
		if r := <-done; r.err != nil {
			t.Error(r.err)
		}
	}
	for i, done := range replies {
		r := <-done
		if (r.err != nil) != (notes[i] != "") {
			t.Errorf("caller %d (%q): got %v", i, notes[i], r.err)
		}
		var unknown *client.UnknownError
		if errors.As(r.err, &unknown) {
			t.Errorf("caller %d: the outcome is known: %v", i, r.err)
		}
	}
	if n := c.count(t, "live", "true"); n != 3+60 {
		t.Errorf("%d jobs are live", n)
	}
}

func TestTheSameIDFromTwoCallersIsStoredOnce(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	release := c.hold(t)
	plugs := []<-chan reply{c.start(t.Context(), welcome{})}
	c.held(t, 1)
	plugs = append(plugs, c.start(t.Context(), welcome{}))
	c.held(t, 2)
	id := idAt(time.Now())
	replies := make([]<-chan reply, 5)
	for i := range replies {
		replies[i] = c.start(t.Context(), welcome{UserID: int64(i)}, job.Options{ID: id})
	}
	release()
	for _, done := range plugs {
		<-done
	}
	inserted := 0
	for _, done := range replies {
		r := <-done
		if r.err != nil || r.enqueued.ID != id {
			t.Errorf("got %v, %v", r.enqueued, r.err)
		}
		if !r.enqueued.Duplicate {
			inserted++
		}
	}
	if n := c.count(t, "jobs", "id = $1", id); inserted != 1 || n != 1 {
		t.Errorf("%d callers inserted it, %d rows", inserted, n)
	}
}

func TestACallerWhoLeavesBeforeItsJobIsSentStoresNothing(t *testing.T) { // B104
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	release := c.hold(t)
	plugs := []<-chan reply{c.start(t.Context(), welcome{})}
	c.held(t, 1)
	plugs = append(plugs, c.start(t.Context(), welcome{}))
	c.held(t, 2)
	ctx, cancel := context.WithCancelCause(t.Context())
	leaver, stayer := c.start(ctx, welcome{Note: "leaver"}), c.start(t.Context(), welcome{Note: "stayer"})
	reason := errors.New("enough")
	cancel(reason)
	r := <-leaver
	var unknown *client.UnknownError
	if !errors.Is(r.err, context.Canceled) || !errors.Is(r.err, reason) || errors.As(r.err, &unknown) {
		t.Errorf("the leaver got %v", r.err)
	}
	release()
	for _, done := range append(plugs, stayer) {
		if r := <-done; r.err != nil {
			t.Errorf("another got %v", r.err)
		}
	}
	if n := c.count(t, "jobs", "payload->>'note' = 'leaver'"); n != 0 {
		t.Errorf("%d jobs of the leaver", n)
	}
}

func TestACallerWhoLeavesWhileItsJobIsOnItsWayLearnsThatAtOnce(t *testing.T) { // B104
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	release := c.hold(t)
	ctx, cancel := context.WithCancel(t.Context())
	leaver := c.start(ctx, welcome{Note: "leaver"})
	c.held(t, 1)
	cancel()
	r := <-leaver // the lock is still held
	var unknown *client.UnknownError
	if !errors.As(r.err, &unknown) || !errors.Is(r.err, context.Canceled) || len(unknown.IDs) != 1 {
		t.Fatalf("got %v", r.err)
	}
	release()
	// The same id again is one job, whether the first came through or not.
	if e, err := c.Enqueue(t.Context(), welcome{Note: "leaver"}, job.Options{ID: unknown.IDs[0]}); err != nil || e.ID != unknown.IDs[0] {
		t.Errorf("got %v, %v", e, err)
	}
	c.Close() // waits for the statement
	if n := c.count(t, "jobs", "payload->>'note' = 'leaver'"); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestEachRequestIsStoredOnceHoweverContextsEnd(t *testing.T) { // B104
	t.Parallel()
	name := "weir-b104"
	pool := poolBy(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["application_name"] = name })
	_, namespace := testenv.Schema(t)
	c := clientOn(t, pool, namespace)
	c.enqueue(t, welcome{Note: "first"})
	const callers, rounds = 64, 30
	var wg sync.WaitGroup
	var unknowns, notSent atomic.Int64
	for caller := range callers {
		wg.Go(func() {
			for round := range rounds {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(3*time.Millisecond))
				args := welcome{Note: fmt.Sprint(caller, " ", round)}
				_, err := c.Enqueue(ctx, args)
				cancel()
				var unknown *client.UnknownError
				switch {
				case err == nil:
					continue
				case errors.As(err, &unknown):
					unknowns.Add(1)
					_, err = c.Enqueue(t.Context(), args, job.Options{ID: unknown.IDs[0]})
				case errors.Is(err, context.DeadlineExceeded):
					notSent.Add(1)
					_, err = c.Enqueue(t.Context(), args)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if rows, notes := c.count(t, "jobs", "true"), callers*rounds+1; rows != notes {
		t.Errorf("%d rows of %d requests (%d unknown, %d not sent)", rows, notes, unknowns.Load(), notSent.Load())
	}
	var distinct, open int
	if err := c.pool.QueryRow(t.Context(), fmt.Sprintf("SELECT count(DISTINCT payload->>'note') FROM %s.jobs", namespace)).Scan(&distinct); err != nil || distinct != callers*rounds+1 {
		t.Errorf("%d different rows, %v", distinct, err)
	}
	const query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in transaction%'"
	if err := c.pool.QueryRow(t.Context(), query, name).Scan(&open); err != nil || open != 0 {
		t.Errorf("%d sessions are idle in a transaction, %v", open, err)
	}
}

func TestAStormOfCancelledCallersOpensNoConnections(t *testing.T) { // B80
	t.Parallel()
	pool, proxy := proxied(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 10 })
	_, namespace := testenv.Schema(t)
	c := clientOn(t, pool, namespace)
	c.exec(t, `CREATE FUNCTION %[1]s.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END $$;
		CREATE TRIGGER slow AFTER INSERT ON %[1]s.jobs FOR EACH STATEMENT EXECUTE FUNCTION %[1]s.slow()`)
	var wg sync.WaitGroup
	end := time.Now().Add(time.Second)
	for i := range 200 {
		wg.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				var err error
				if i%10 == 0 {
					_, err = c.EnqueueMany(ctx, []job.Spec{{Args: welcome{}}, {Args: welcome{}}})
				} else {
					_, err = c.Enqueue(ctx, welcome{})
				}
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := proxy.Connections(); n > 15 {
		t.Errorf("%d connections were opened", n)
	}
	if _, err := c.Enqueue(within(t, 5*time.Second), welcome{}); err != nil {
		t.Errorf("after the storm: %v", err)
	}
}

func TestANilContextHurtsItsCallerAlone(t *testing.T) { // B104
	t.Parallel()
	c := open(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		var none context.Context
		_, _ = c.Enqueue(none, welcome{})
	}()
	c.enqueue(t, welcome{})
}
