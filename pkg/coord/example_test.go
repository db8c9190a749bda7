package coord_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/coord"
)

func ExampleBus() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	bus := coord.New(rdb, coord.Config{Namespace: "weir"})

	ctx, cancel := context.WithCancel(context.Background())
	err = bus.Run(ctx, "web-7/4711", coord.Receiver{
		OnSubscribed: func() {
			_ = bus.Register(ctx, "web-7/4711", coord.Idle{Queue: "mail", Free: 10})
			// Now the worker claims, once. A producer elsewhere:
			_ = bus.Wake(ctx, coord.Hint{Queue: "mail", Count: 3})
		},
		OnHint: func(h coord.Hint) {
			fmt.Printf("%d jobs in %s\n", h.Count, h.Queue)
			cancel()
		},
	})
	fmt.Println("closed:", err)
	// Output:
	// 3 jobs in mail
	// closed: <nil>
}
