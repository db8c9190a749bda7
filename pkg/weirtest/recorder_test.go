package weirtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/weirtest"
)

// enqueuer is what the code under test asks for.
type enqueuer interface {
	Enqueue(ctx context.Context, args job.Args, options ...job.Options) (client.Enqueued, error)
}

var (
	_ enqueuer = (*client.Client)(nil)
	_ enqueuer = (*weirtest.Recorder)(nil)
)

func signup(ctx context.Context, q enqueuer, user int64) error {
	_, err := q.Enqueue(ctx, welcome{UserID: user}, job.Options{Delay: time.Minute})
	return err
}

func TestARecorderKeepsWhatAClientWouldStore(t *testing.T) {
	t.Parallel()
	var rec weirtest.Recorder
	if err := signup(t.Context(), &rec, 7); err != nil {
		t.Fatal(err)
	}
	j := weirtest.RequireEnqueued[welcome](t, &rec, weirtest.OnQueue("mail"))
	if j.Args.UserID != 7 || j.State != job.Scheduled || j.MaxAttempts != 8 || j.ReadyAt.Sub(j.EnqueuedAt) != time.Minute || j.ID.IsZero() {
		t.Errorf("recorded %+v", j)
	}
	weirtest.RequireEnqueued[survey](t, &rec, weirtest.Count(0))
	id := rec.Jobs()[0].ID
	if e, err := rec.EnqueueTx(t.Context(), nil, survey{}, job.Options{ID: id}); err != nil || !e.Duplicate || e.ID != id || len(rec.Jobs()) != 1 {
		t.Errorf("an id that is there: %+v, %v", e, err)
	}
	rec.Reset()
	if n := len(rec.Jobs()); n != 0 {
		t.Errorf("%d jobs after Reset", n)
	}
}

func TestARecorderRefusesWhatAClientRefuses(t *testing.T) {
	t.Parallel()
	var rec weirtest.Recorder
	var field *job.FieldError
	_, err := rec.EnqueueMany(t.Context(), []job.Spec{{Args: survey{}}, {Args: survey{}, Options: job.Options{Priority: 10}}})
	if !errors.As(err, &field) || field.Field != "Priority" || field.Index != 1 || len(rec.Jobs()) != 0 {
		t.Errorf("a bad one among two: %v, %d recorded", err, len(rec.Jobs()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := signup(ctx, &rec, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	rec.Fail = client.ErrReadOnly
	if err := signup(t.Context(), &rec, 1); !errors.Is(err, client.ErrReadOnly) || len(rec.Jobs()) != 0 {
		t.Errorf("told to fail: %v", err)
	}
}

func ExampleRecorder() {
	var rec weirtest.Recorder
	inTest(func(t testing.TB) {
		_ = signup(context.Background(), &rec, 7)
		j := weirtest.RequireEnqueued[welcome](t, &rec)
		fmt.Println(j.Kind, j.Args.UserID, j.Queue)
	})
	// Output: mail.welcome 7 mail
}
