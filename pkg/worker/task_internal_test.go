package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

type args struct{}

func (args) Kind() string { return "args" }

// The context of a handler that was to be stopped between its claim and its start ends at once.
func TestAStopThatComesBeforeTheStartIsNotLost(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(context.Background(), "host=127.0.0.1 port=1 user=nobody dbname=none sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c, err := client.New(pool, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	strict := map[string]bool{"in doubt": true}
	for name, prepare := range map[string]func(*task) error{
		"in doubt with a key": func(x *task) error {
			x.row.Keys = []job.Key{job.Mutex("k")}
			x.session.doubt.Store(true)
			return job.ErrLeaseLost
		},
		"cancelled": func(x *task) error { x.stop(job.ErrCancelled); x.stop(job.ErrShutdown); return job.ErrCancelled },
		"in doubt":  func(x *task) error { x.session.doubt.Store(true); return job.ErrLeaseLost },
	} {
		w, err := New(c, Config{})
		if err != nil {
			t.Fatal(err)
		}
		var cause error
		Handle(w, func(ctx context.Context, _ *Job[args]) error { cause = context.Cause(ctx); return nil }, HandlerOptions{StopOnDoubt: strict[name]})
		ses := &session{}
		ses.ctx, ses.cancel = context.WithCancelCause(t.Context())
		x := &task{worker: w, row: job.Row{Kind: "args", Payload: []byte("{}")}, handler: w.handlers["args"], session: ses, freed: true}
		x.verdicts = make(chan<- verdict, 1)
		want := prepare(x)
		w.execute(x)
		if !errors.Is(cause, want) {
			t.Errorf("%s: cause %v, want %v", name, cause, want)
		}
		ses.cancel(nil)
	}
}
