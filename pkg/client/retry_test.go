package client_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// failFirst makes the first inserts into the log fail with code.
func (r rig) failFirst(t *testing.T, failures int, code string) {
	t.Helper()
	// A sequence is not rolled back: the next try gets the next number.
	r.exec(t, fmt.Sprintf(`CREATE SEQUENCE %%[1]s.tries;
		CREATE FUNCTION %%[1]s.fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
		  IF nextval('%%[1]s.tries') <= %d THEN RAISE EXCEPTION 'try again' USING ERRCODE = '%s'; END IF;
		  RETURN NULL;
		END $$;
		CREATE TRIGGER fail AFTER INSERT ON %%[1]s.jobs FOR EACH STATEMENT EXECUTE FUNCTION %%[1]s.fail()`, failures, code))
}

func TestADeadlockOrConflictIsTriedAgainWithTheSameID(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40P01", "40001"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			c := open(t)
			c.failFirst(t, 3, code)
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
