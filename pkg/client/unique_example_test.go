package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// Reindex is a job of which one with the same Shop is enough. Reason is not compared.
type Reindex struct {
	Shop   int    `json:"shop" weir:"unique"`
	Reason string `json:"reason"`
}

func (Reindex) Kind() string { return "shop.reindex" }

func (Reindex) Options() job.Options { return job.Options{Unique: job.Unique{ByArgs: true}} }

// inModes calls f with a client with Redis and one without.
func inModes(f func(ctx context.Context, c *client.Client)) {
	for _, mode := range []testenv.RedisMode{testenv.RedisMini, testenv.RedisNone} {
		tb := &exampleTB{}
		pool, namespace := testenv.Schema(tb)
		c, err := client.New(pool, client.Config{Namespace: namespace, Redis: testenv.RedisClient(tb, mode)})
		if err != nil {
			panic(err)
		}
		fmt.Println("mode", mode)
		f(context.Background(), c)
		c.Close()
		for i := len(tb.cleanups) - 1; i >= 0; i-- {
			tb.cleanups[i]()
		}
	}
}

func ExampleClient_Enqueue_unique() {
	inModes(func(ctx context.Context, c *client.Client) {
		first, _ := c.Enqueue(ctx, Reindex{Shop: 42, Reason: "price"})
		again, err := c.Enqueue(ctx, Reindex{Shop: 42, Reason: "stock"})
		fmt.Println(again.Duplicate, again.ID == first.ID, err)
		another, _ := c.Enqueue(ctx, Reindex{Shop: 43, Reason: "price"})
		fmt.Println(another.Duplicate)

		var dup *client.DuplicateError
		_, err = c.Enqueue(ctx, Reindex{Shop: 42}, job.Options{Unique: job.Unique{ByArgs: true, OnConflict: job.Fail}})
		fmt.Println(errors.As(err, &dup) && dup.ID == first.ID)
	})
	// Output:
	// mode miniredis
	// true true <nil>
	// false
	// true
	// mode none
	// true true <nil>
	// false
	// true
}

func ExampleClient_Enqueue_debounce() {
	debounce := job.Options{Unique: job.Unique{Key: "shop:42", While: job.Waiting, OnConflict: job.Replace}}
	inModes(func(ctx context.Context, c *client.Client) {
		first, _ := c.Enqueue(ctx, Reindex{Shop: 42, Reason: "price"}, debounce)
		second, _ := c.Enqueue(ctx, Reindex{Shop: 42, Reason: "stock"}, debounce)
		fmt.Println(second.Replaced == first.ID)
		row, _ := c.Job(ctx, first.ID)
		fmt.Println(row.State, row.Error == "superseded by "+second.ID.String())
		row, _ = c.Job(ctx, second.ID)
		fmt.Println(row.State, string(row.Payload))
	})
	// Output:
	// mode miniredis
	// true
	// cancelled true
	// available {"shop":42,"reason":"stock"}
	// mode none
	// true
	// cancelled true
	// available {"shop":42,"reason":"stock"}
}
