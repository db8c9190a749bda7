package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func ExampleClient_Change() {
	inModes(func(ctx context.Context, c *client.Client) {
		e, _ := c.Enqueue(ctx, Invoice{Order: 7}, job.Options{Delay: time.Hour})
		err := c.Change(ctx, client.Change{Now: true, Priority: 1}, e.ID)
		row, _ := c.Job(ctx, e.ID)
		fmt.Println(row.State, row.Priority, err)

		// By filter, in batches: what runs or has ended is not touched.
		n, err := c.ChangeMany(ctx, client.Filter{Queue: "mail"}, client.Change{In: 24 * time.Hour})
		row, _ = c.Job(ctx, e.ID)
		fmt.Println(n, row.State, err)
	})
	// Output:
	// mode miniredis
	// available 1 <nil>
	// 1 scheduled <nil>
	// mode none
	// available 1 <nil>
	// 1 scheduled <nil>
}

func ExampleClient_Pause() {
	inModes(func(ctx context.Context, c *client.Client) {
		_ = c.Pause(ctx, client.Queue("mail"))
		e, err := c.Enqueue(ctx, Invoice{Order: 7}) // a pause keeps nobody from enqueueing
		fmt.Println(err)
		x, _ := c.Explain(ctx, e.ID)
		fmt.Println(x.Why)

		_ = c.Resume(ctx, client.Queue("mail"))
		_ = c.Pause(ctx, client.Kind("invoice.send")) // that kind alone, in whatever queue
		x, _ = c.Explain(ctx, e.ID)
		fmt.Println(x.Why)
	})
	// Output:
	// mode miniredis
	// <nil>
	// [queue paused no worker]
	// [kind paused no worker]
	// mode none
	// <nil>
	// [queue paused no worker]
	// [kind paused no worker]
}

func ExampleClient_RetryMany() {
	inModes(func(ctx context.Context, c *client.Client) {
		for order := range 3 {
			_, _ = c.Enqueue(ctx, Invoice{Order: order}, job.Options{Tags: []string{"spring"}})
		}
		n, err := c.CancelMany(ctx, client.Filter{Tag: "spring"})
		fmt.Println(n, err)
		n, err = c.RetryMany(ctx, client.Filter{Tag: "spring", State: job.Cancelled}) // under their old ids
		fmt.Println(n, err)
	})
	// Output:
	// mode miniredis
	// 3 <nil>
	// 3 <nil>
	// mode none
	// 3 <nil>
	// 3 <nil>
}
