package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// withEffects runs jobs whose handler has an effect in its own transaction, which ends as the job's note says.
func (r *rig) withEffects(change ...func(*worker.Config)) *running {
	r.exec("CREATE TABLE %s.effects (job uuid)")
	w := r.worker(change...)
	worker.Handle(w, func(ctx context.Context, j *worker.Job[task]) error {
		tx, err := r.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if _, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO %s.effects VALUES ($1)", r.namespace), j.ID); err != nil {
			return err
		}
		if err := j.FinishTx(ctx, tx, map[string]int{"n": j.Args.N}); err != nil {
			return err
		}
		switch j.Args.Note {
		case "rolls back":
			return nil
		case "rolls back with an error":
			return errors.New("on second thoughts")
		case "commits with an error":
			_ = tx.Commit(ctx)
			return errors.New("too late")
		case "loses its claim":
			return nil
		}
		return tx.Commit(ctx)
	})
	return r.run(w)
}

func TestFinishTxCompletesTheJobWithTheTransaction(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		var h hooks
		u := r.withEffects(h.install)
		for _, note := range []string{"", "commits with an error"} {
			id := r.add(task{N: 7, Note: note})
			got, err := client.Await[map[string]int](t.Context(), r.Client, id)
			if err != nil || got["n"] != 7 {
				t.Errorf("%q: result %v, %v", note, got, err)
			}
		}
		r.await("both counted", func() bool { return u.Stats().Completed == 2 })
		if n := r.count("SELECT count(*) FROM %s.effects"); n != 2 {
			t.Errorf("%d effects", n)
		}
		h.wasTold(t, 0, 2)
	})
}

func TestFinishTxWithoutACommitIsAFailedAttempt(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		var h hooks
		r.withEffects(h.install)
		for note, want := range map[string]string{
			"rolls back": "its transaction did not commit", "rolls back with an error": "on second thoughts",
		} {
			row := r.reaches(r.add(task{Note: note}, job.Options{Backoff: job.Fixed(time.Hour)}), job.Retrying)
			if len(row.Attempts) != 1 || !strings.Contains(row.Attempts[0].Error, want) {
				t.Errorf("%s: attempts %+v", note, row.Attempts)
			}
		}
		if n := r.count("SELECT count(*) FROM %s.effects"); n != 0 {
			t.Errorf("%d effects", n)
		}
		h.wasTold(t, 2, 2)
	})
}

func TestFinishTxIsRefusedOnceTheClaimHasEnded(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	errs := make(chan error, 1)
	r.start(func(ctx context.Context, j *worker.Job[task]) error {
		r.exec("UPDATE %s.live SET fence = fence + 1 WHERE id = $1", j.ID)
		return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			err := j.FinishTx(ctx, tx, nil)
			errs <- err
			return err
		})
	})
	r.add(task{})
	if err := receive(t, errs, "answer"); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("FinishTx: %v", err)
	}
}

func TestFinishTxRefusesAResultThatIsTooLarge(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	r.start(func(ctx context.Context, j *worker.Job[task]) error {
		return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			return j.FinishTx(ctx, tx, strings.Repeat("x", job.MaxResultBytes))
		})
	})
	if row := r.reaches(r.add(task{}), job.Discarded); !strings.Contains(row.Error, "result") {
		t.Errorf("error %q", row.Error)
	}
}

// After FinishTx the row is locked until the handler's transaction ends. A few such statements would take all connections
// that claims and results have.
func TestATimeoutAfterFinishTxDoesNotWaitForTheTransaction(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	waiting := make(chan int, 1)
	u := r.start(func(ctx context.Context, j *worker.Job[task]) error {
		tx, err := r.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if err := j.FinishTx(ctx, tx, nil); err != nil {
			return err
		}
		<-ctx.Done()
		<-time.After(200 * time.Millisecond) // by then a handler that ignores its context is shown as timing out
		waiting <- r.count(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%UPDATE "%s".live%%'`)
		return tx.Commit(context.WithoutCancel(ctx))
	})
	id := r.add(task{}, job.Options{Timeout: 100 * time.Millisecond})
	if n := receive(t, waiting, "count"); n != 0 {
		t.Errorf("%d statements wait for the handler's transaction", n)
	}
	r.reaches(id, job.Completed)
	if s := u.Stats(); s.TimingOut != 1 {
		t.Errorf("stats %+v", s)
	}
}
