package client_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func TestAJobIsEnqueuedInATransactionOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	c := open(t)
	h := listen(c)
	db := stdlib.OpenDBFromPool(c.pool)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	payload := `{ "k":"a\u0000b\ud800", "n":9007199254740993 , "q":"\"'"}`
	e, err := c.EnqueueSQLTx(t.Context(), tx, job.Raw{Name: "raw", Payload: json.RawMessage(payload)}, job.Options{
		Queue: "mail", Priority: 1, Delay: time.Hour, Timeout: time.Minute, Backoff: job.Fixed(time.Second),
		Tags: []string{"a", `"`}, Metadata: map[string]string{"k": "v"}, MaxAttempts: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	due, err := c.EnqueueSQLTx(t.Context(), tx, welcome{})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.EnqueueSQLTx(t.Context(), tx, welcome{}, job.Options{ID: due.ID}); err != nil || !again.Duplicate {
		t.Errorf("the same id: got %v, %v", again, err)
	}
	if n := c.count(t, "live", "true"); n != 0 {
		t.Errorf("%d jobs before the commit", n)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	row, err := c.Job(t.Context(), e.ID)
	if err != nil || string(row.Payload) != payload || row.Queue != "mail" || row.Priority != 1 || row.State != job.Scheduled ||
		row.Timeout != time.Minute || row.Backoff != job.Fixed(time.Second) || len(row.Tags) != 2 || row.Tags[1] != `"` ||
		row.Metadata["k"] != "v" || row.MaxAttempts != 4 {
		t.Errorf("got %+v, %v", row, err)
	}
	if hints := h.all(); len(hints) != 1 || !hints[0].Early || hints[0].Kind != "mail.welcome" {
		t.Errorf("hints %+v", hints)
	}
}

func TestARolledBackTransactionOfDatabaseSQLLeavesNothing(t *testing.T) {
	t.Parallel()
	c := open(t)
	db := stdlib.OpenDBFromPool(c.pool)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.EnqueueSQLTx(t.Context(), tx, welcome{}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.EnqueueSQLTx(t.Context(), tx, welcome{}); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("in a finished transaction: got %v", err)
	}
	if n := c.count(t, "jobs", "true"); n != 0 {
		t.Errorf("%d jobs", n)
	}
}

// severed is a *sql.DB whose answers are lost.
type severed struct{ client.SQLTx }

var errSevered = errors.New("connection reset by peer")

func (severed) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errSevered
}

// severedTx is a transaction whose answers are lost.
type severedTx struct{ severed }

func (severedTx) Commit() error { return nil }

func TestALostAnswerOutsideATransactionIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{}) // learns the clock
	_, err := c.EnqueueSQLTx(t.Context(), severed{}, welcome{})
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) || len(unknown.IDs) != 1 || !errors.Is(err, errSevered) {
		t.Errorf("got %v", err)
	}
	if _, err := c.EnqueueSQLTx(t.Context(), severedTx{}, welcome{}); errors.As(err, &unknown) || !errors.Is(err, errSevered) {
		t.Errorf("in a transaction: got %v", err)
	}
}

func TestADatabaseSQLTransactionWithAWrongClockSucceedsTheSecondTime(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	db := stdlib.OpenDBFromPool(c.pool)
	defer db.Close()
	c.IDs().SetOffset(time.Hour)
	if _, err := c.EnqueueSQLTx(t.Context(), db, welcome{}); err == nil {
		t.Error("an id of an hour ahead was stored")
	}
	if _, err := c.EnqueueSQLTx(t.Context(), db, welcome{}); err != nil {
		t.Error(err)
	}
}
