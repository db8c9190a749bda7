package weirtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/weirtest"
	"github.com/weirq/weir/pkg/worker"
)

// mailer is what the examples test.
type mailer struct{ sent int }

func (m *mailer) Welcome(_ context.Context, j *worker.Job[welcome]) error {
	if j.Args.UserID == 0 {
		return errors.New("no such user")
	}
	m.sent++
	return nil
}

// inTest calls f as a test that prints its failures: in a test, t is the test's own.
func inTest(f func(t testing.TB)) {
	t := &exampleT{}
	defer func() {
		for i := len(t.cleanups) - 1; i >= 0; i-- {
			t.cleanups[i]()
		}
	}()
	f(t)
}

type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Context() context.Context          { return context.Background() }
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleT) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func ExampleRequireEnqueued() {
	inTest(func(t testing.TB) {
		q := weirtest.Start(t, weirtest.StartOptions{PostgresURL: testenv.Postgres(t)})
		tx, err := q.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }() // nothing of it stays
		if _, err := q.Client.EnqueueTx(t.Context(), tx, welcome{UserID: 7}); err != nil {
			t.Fatal(err)
		}
		j := weirtest.RequireEnqueued[welcome](t, tx, weirtest.Namespace(q.Namespace))
		fmt.Println(j.Queue, j.Args.UserID)
	})
	// Output: mail 7
}

func ExampleExecute() {
	inTest(func(t testing.TB) {
		m := &mailer{}
		weirtest.Execute(t, m.Welcome, welcome{UserID: 7}).RequireCompleted(t)
		r := weirtest.Execute(t, m.Welcome, welcome{})
		r.RequireRetried(t)
		fmt.Println(m.sent, r.Err)
	})
	// Output: 1 no such user
}

func ExampleExecuteResult() {
	inTest(func(t testing.TB) {
		double := func(_ context.Context, j *worker.Job[welcome]) (int64, error) { return 2 * j.Args.UserID, nil }
		r := weirtest.ExecuteResult(t, double, welcome{UserID: 21})
		r.RequireCompleted(t)
		fmt.Println(r.Value)
	})
	// Output: 42
}

func ExampleStart() {
	inTest(func(t testing.TB) {
		q := weirtest.Start(t, weirtest.StartOptions{
			PostgresURL: testenv.Postgres(t), // without it, it finds or starts one
			Worker:      worker.Config{Queues: []worker.Queue{{Name: "mail", Slots: 5}}},
		})
		m := &mailer{}
		worker.Handle(q.Worker, m.Welcome)
		if _, err := q.Client.Enqueue(t.Context(), welcome{UserID: 7}); err != nil {
			t.Fatal(err)
		}
		fmt.Println(q.Drain(t, weirtest.WithDelayed).Completed, m.sent)
	})
	// Output: 1 1
}
