package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// welcome is the job of the examples.
type welcome struct {
	UserID int64 `json:"user_id"`
}

func (welcome) Kind() string { return "mail.welcome" }

// mailer has a handler; what it needs are its fields.
type mailer struct{ name string }

func (m *mailer) Welcome(_ context.Context, j *worker.Job[welcome]) error {
	if j.Args.UserID == 0 {
		return job.Cancel(errors.New("no such user")) // not wanted any more, no retry
	}
	fmt.Printf("%s welcomes user %d, attempt %d\n", m.name, j.Args.UserID, j.Attempt)
	return nil
}

// withQueue calls f with a client on a schema of its own. In a program: client.New(pool, client.Config{Redis: rdb}).
func withQueue(f func(ctx context.Context, c *client.Client)) {
	t := &exampleT{}
	defer t.end()
	pool, namespace := testenv.Schema(t)
	c, err := client.New(pool, client.Config{Namespace: namespace})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	f(context.Background(), c)
}

func ExampleHandle() {
	withQueue(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{Queues: []worker.Queue{{Name: "default", Slots: 50}}})
		if err != nil {
			panic(err)
		}
		m := &mailer{name: "Ada"}
		worker.Handle(w, m.Welcome, worker.HandlerOptions{Timeout: 30 * time.Second, Aliases: []string{"welcome_mail"}})

		running, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- w.Run(running) }()
		e, err := c.Enqueue(ctx, welcome{UserID: 7})
		if err != nil {
			panic(err)
		}
		_, err = client.Await[any](ctx, c, e.ID)
		stop() // graceful: what runs gets Config.Grace
		fmt.Println(err, <-ended)
	})
	// Output:
	// Ada welcomes user 7, attempt 1
	// <nil> <nil>
}

func ExampleHandleResult() {
	withQueue(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{})
		if err != nil {
			panic(err)
		}
		worker.HandleResult(w, func(_ context.Context, j *worker.Job[welcome]) (string, error) {
			return fmt.Sprintf("user %d was welcomed", j.Args.UserID), nil
		})
		e, err := c.Enqueue(ctx, welcome{UserID: 7})
		if err != nil {
			panic(err)
		}
		if _, err := w.Drain(ctx, worker.DrainOptions{}); err != nil {
			panic(err)
		}
		fmt.Println(client.Await[string](ctx, c, e.ID))
	})
	// Output: user 7 was welcomed <nil>
}

func ExampleJob_FinishTx() {
	withQueue(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{})
		if err != nil {
			panic(err)
		}
		worker.Handle(w, func(ctx context.Context, j *worker.Job[welcome]) error {
			return pgx.BeginFunc(ctx, c.Pool(), func(tx pgx.Tx) error {
				// The handler's own statements on tx go here: they and the end of the job are one commit.
				return j.FinishTx(ctx, tx, "welcomed")
			})
		})
		if _, err := c.Enqueue(ctx, welcome{UserID: 7}); err != nil {
			panic(err)
		}
		n, err := w.Drain(ctx, worker.DrainOptions{})
		fmt.Println(n.Completed, err)
	})
	// Output: 1 <nil>
}

func ExampleMiddleware() {
	withQueue(func(ctx context.Context, c *client.Client) {
		logged := func(ctx context.Context, row *job.Row, next func(context.Context) error) error {
			err := next(ctx)
			fmt.Printf("%s: %v\n", row.Kind, err) // a panic arrives as an error
			return err
		}
		w, err := worker.New(c, worker.Config{Middleware: []worker.Middleware{logged}})
		if err != nil {
			panic(err)
		}
		worker.Handle(w, func(context.Context, *worker.Job[welcome]) error { panic("no template") })
		if _, err := c.Enqueue(ctx, welcome{UserID: 7}); err != nil {
			panic(err)
		}
		if _, err := w.Drain(ctx, worker.DrainOptions{}); err != nil {
			panic(err)
		}
	})
	// Output: mail.welcome: panic: no template
}

func ExampleWorker_Drain() {
	withQueue(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{})
		if err != nil {
			panic(err)
		}
		m := &mailer{name: "Ada"}
		worker.Handle(w, m.Welcome)
		for id := range int64(2) {
			if _, err := c.Enqueue(ctx, welcome{UserID: id}, job.Options{Delay: time.Hour}); err != nil {
				panic(err)
			}
		}
		n, err := w.Drain(ctx, worker.DrainOptions{Delayed: true})
		fmt.Printf("%+v %v\n", n, err)
	})
	// Output:
	// Ada welcomes user 1, attempt 1
	// {Completed:1 Retried:0 Snoozed:0 Discarded:0 Cancelled:1} <nil>
}

func ExampleWorker_Events() {
	withQueue(func(ctx context.Context, c *client.Client) {
		w, err := worker.New(c, worker.Config{})
		if err != nil {
			panic(err)
		}
		worker.Handle(w, func(_ context.Context, j *worker.Job[welcome]) error {
			if j.Attempt == 1 {
				return errors.New("not today")
			}
			return nil
		})
		stream, stop := w.Events(100)
		if _, err := c.Enqueue(ctx, welcome{UserID: 7}); err != nil {
			panic(err)
		}
		if _, err := w.Drain(ctx, worker.DrainOptions{Delayed: true}); err != nil {
			panic(err)
		}
		stop()
		for ev := range stream {
			if ev.Type != worker.EventError { // the worker's own trouble, a slow Redis for example: not about a job
				fmt.Println(ev.Type, ev.Next.WillRetry)
			}
		}
	})
	// Output:
	// claimed false
	// retried true
	// claimed false
	// completed false
}
