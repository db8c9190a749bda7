package client_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// Invoice is what the job carries; Kind names it.
type Invoice struct {
	Order int `json:"order"`
}

func (Invoice) Kind() string { return "invoice.send" }

// Options are the defaults of all such jobs.
func (Invoice) Options() job.Options { return job.Options{Queue: "mail", MaxAttempts: 8} }

func ExampleClient_Enqueue() {
	ctx, pool, namespace, done := example()
	defer done()

	c, err := client.New(pool, client.Config{Namespace: namespace}) // with Redis: a redis.UniversalClient
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	e, err := c.Enqueue(ctx, Invoice{Order: 7}, job.Options{Delay: 10 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	row, err := c.Job(ctx, e.ID)
	fmt.Println(row.Kind, row.Queue, row.State, string(row.Payload), err)
	// Output: invoice.send mail scheduled {"order":7} <nil>
}

func ExampleClient_SetLimit() {
	ctx, pool, namespace, done := example()
	defer done()
	c, _ := client.New(pool, client.Config{Namespace: namespace})
	defer c.Close()

	keys := []job.Key{job.Limit("tenant:7", 5), job.Rate("stripe", 100, time.Second).Weight(3)}
	e, _ := c.Enqueue(ctx, Invoice{Order: 7}, job.Options{Keys: keys})

	// While jobs wait: all tenants have three at a time now, whatever their jobs say.
	_ = c.SetLimit(ctx, client.Limit{Key: "tenant:", Prefix: true, N: 3}, false)
	x, err := c.Explain(ctx, e.ID)
	fmt.Println(x.Job.Keys[0], x.Job.Keys[1], x.Locks[0].Limit, x.Why, err)
	// Output: tenant:7 (limit 5) stripe (rate 100 per 1s, weight 3) 3 [no worker] <nil>
}

func ExampleClient_EnqueueMany() {
	ctx, pool, namespace, done := example()
	defer done()
	c, _ := client.New(pool, client.Config{Namespace: namespace})
	defer c.Close()

	jobs := make([]job.Spec, 5000)
	for i := range jobs {
		jobs[i] = job.Spec{Args: Invoice{Order: i}}
	}
	got, err := c.EnqueueMany(ctx, jobs) // all or none
	fmt.Println(len(got), err)
	// Output: 5000 <nil>
}

func ExampleClient_InTx() {
	ctx, pool, namespace, done := example()
	defer done()
	c, _ := client.New(pool, client.Config{Namespace: namespace})
	defer c.Close()

	err := c.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "CREATE TEMPORARY TABLE orders (id int)"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES (7)"); err != nil {
			return err
		}
		_, err := c.EnqueueTx(ctx, tx, Invoice{Order: 7}) // exists exactly if the order does
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_EnqueueSQLTx() {
	ctx, pool, namespace, done := example()
	defer done()
	c, _ := client.New(pool, client.Config{Namespace: namespace})
	defer c.Close()
	var db *sql.DB = stdlib.OpenDBFromPool(pool) // or sql.Open with any driver for Postgres
	defer db.Close()

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tx.Rollback()
	if _, err := c.EnqueueSQLTx(ctx, tx, Invoice{Order: 7}); err != nil { // with GORM: tx.Statement.ConnPool
		fmt.Println(err)
		return
	}
	if err := tx.Commit(); err != nil {
		fmt.Println(err)
		return
	}
	_ = c.Wake(ctx, "mail") // not needed, only sooner
	fmt.Println("committed")
	// Output: committed
}

func ExampleAwait() {
	ctx, pool, namespace, done := example()
	defer done()
	c, _ := client.New(pool, client.Config{Namespace: namespace})
	defer c.Close()

	e, err := c.Enqueue(ctx, Invoice{Order: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	work(c) // elsewhere, a worker handles it and leaves a result

	type sent struct{ Number string }
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	result, err := client.Await[sent](ctx, c, e.ID)
	fmt.Println(result.Number, err)
	// Output: R-7 <nil>
}

func ExampleClient_Jobs() {
	ctx, pool, namespace, done := example()
	defer done()
	c, _ := client.New(pool, client.Config{Namespace: namespace})
	defer c.Close()
	for order := range 3 {
		if _, err := c.Enqueue(ctx, Invoice{Order: order}); err != nil {
			fmt.Println(err)
		}
	}
	for row, err := range c.Jobs(ctx, client.Filter{Queue: "mail", State: job.Available, Since: time.Hour}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row.Kind, string(row.Payload))
	}
	// Output:
	// invoice.send {"order":2}
	// invoice.send {"order":1}
	// invoice.send {"order":0}
}

// exampleTB lets examples use the tests' database.
type exampleTB struct {
	testing.TB // nil: what is not below is not called
	cleanups   []func()
}

func (*exampleTB) Helper()                   {}
func (tb *exampleTB) Cleanup(f func())       { tb.cleanups = append(tb.cleanups, f) }
func (*exampleTB) Error(args ...any)         { fmt.Println(args...) }
func (*exampleTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (*exampleTB) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (*exampleTB) Context() context.Context  { return context.Background() }

func example() (ctx context.Context, pool *pgxpool.Pool, namespace string, done func()) {
	tb := &exampleTB{}
	pool, namespace = testenv.Schema(tb)
	return context.Background(), pool, namespace, func() {
		for i := len(tb.cleanups) - 1; i >= 0; i-- {
			tb.cleanups[i]()
		}
	}
}

// work does what a worker with a handler for Invoice would do.
func work(c *client.Client) {
	tb := &exampleTB{}
	r := rig{c, c.Pool(), c.Namespace()}
	session := r.session(tb)
	for _, row := range r.claim(tb, session, "mail", "invoice.send") {
		r.complete(tb, session, row, `{"Number":"R-7"}`)
	}
}
