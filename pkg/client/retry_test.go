package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// failFirst makes the first inserts into a table fail with code.
func (r rig) failFirst(t *testing.T, table string, failures int, code string) {
	t.Helper()
	// A sequence is not rolled back: the next try gets the next number.
	r.exec(t, fmt.Sprintf(`CREATE SEQUENCE %%[1]s.tries;
		CREATE FUNCTION %%[1]s.fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		  IF nextval('%%[1]s.tries') <= %d THEN RAISE EXCEPTION 'try again' USING ERRCODE = '%s'; END IF;
		  RETURN NULL;
		END $$;
		CREATE TRIGGER fail AFTER INSERT ON %%[1]s.%s FOR EACH STATEMENT EXECUTE FUNCTION %%[1]s.fail()`, failures, code, table))
}

func TestADeadlockOrConflictIsTriedAgainWithTheSameID(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40P01", "40001"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			c := open(t)
			c.failFirst(t, "jobs", 3, code)
			c.enqueue(t, welcome{})
			c.exec(t, "SELECT setval('%s.tries', 1, false)")
			jobs := make([]job.Spec, 1500)
			for i := range jobs {
				jobs[i].Args = welcome{}
			}
			if got, err := c.EnqueueMany(t.Context(), jobs[:10]); err != nil || got[0].Duplicate {
				t.Errorf("ten: %v", err)
			}
			c.exec(t, "SELECT setval('%s.tries', 1, false)")
			if got, err := c.EnqueueMany(t.Context(), jobs); err != nil || got[0].Duplicate {
				t.Errorf("many: %v", err)
			}
			if n := c.count(t, "live", "true"); n != 1+10+1500 {
				t.Errorf("%d jobs", n)
			}
			// In the caller's transaction it is the caller who tries again.
			c.exec(t, "SELECT setval('%s.tries', 1, false)")
			tries := 0
			var err error
			for tries = 1; tries < 9; tries++ {
				err = c.InTx(t.Context(), func(tx pgx.Tx) error {
					_, err := c.EnqueueTx(t.Context(), tx, welcome{})
					return err
				})
				if err == nil {
					break
				}
			}
			if tries != 4 || err != nil {
				t.Errorf("in a transaction: %d tries, %v", tries, err)
			}
		})
	}
}

// A delete of thousands crosses claims, and SKIP LOCKED may wait (docs/decisions/0017).
func TestWhatIsDoneByHandIsDoneAgainAfterADeadlock(t *testing.T) {
	t.Parallel()
	c := open(t)
	waiting := func() job.ID { return c.enqueue(t, welcome{}, job.Options{Delay: time.Hour}) }
	dead, other := waiting(), c.enqueue(t, welcome{}, job.Options{Delay: time.Hour, Queue: "other"})
	if err := c.Cancel(t.Context(), dead, other); err != nil {
		t.Fatal(err)
	}
	c.failFirst(t, "actions", 3, "40P01")
	for what, do := range map[string]func() error{
		"cancel": func() error { return c.Cancel(t.Context(), waiting()) },
		"retry":  func() error { return c.Retry(t.Context(), dead) },
		"retry many": func() error {
			n, err := c.RetryMany(t.Context(), client.Filter{Queue: "other"})
			if n != 1 {
				t.Errorf("retry many: %d jobs, want 1: what was rolled back counts", n)
			}
			return err
		},
		"delete": func() error { return c.Delete(t.Context(), waiting()) },
		"change": func() error { return c.Change(t.Context(), client.Change{Priority: 2}, waiting()) },
		"limit":  func() error { return c.SetLimit(t.Context(), client.Limit{Key: "k", N: 3}, false) },
		"pause":  func() error { return c.Pause(t.Context(), client.Queue("elsewhere")) },
	} {
		before := c.count(t, "actions", "true")
		c.exec(t, "SELECT setval('%s.tries', 1, false)")
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if n := c.count(t, "actions", "true") - before; n != 1 {
			t.Errorf("%s is noted %d times", what, n)
		}
		if n := c.count(t, "tries", "last_value = 4"); n != 1 {
			t.Errorf("%s was not tried four times", what)
		}
	}
}
