package worker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// report is the job of a schedule.
type report struct {
	Days int `json:"days"`
}

func (report) Kind() string { return "report.daily" }

// A schedule is declared beside the code, by every process of the program when it starts, and fired by the sweeper: here the one in
// the worker. It works in the same way with Redis and without.
func ExampleClient_SyncSchedules() {
	for _, mode := range []testenv.RedisMode{testenv.RedisMini, testenv.RedisNone} {
		withScheduled(mode, func(ctx context.Context, c *client.Client) {
			err := c.SyncSchedules(ctx, "billing", []client.Schedule{
				{Name: "daily-report", Cron: "0 6 * * 1-5", Zone: "Europe/Berlin", Args: report{Days: 1}, Misfire: client.MisfireOnce},
				{Name: "heartbeat", Every: time.Minute, FirstIn: time.Millisecond, Args: report{Days: 7}},
			}, client.SyncOptions{Version: 42}) // the number of the build; by default the time of its commit
			if err != nil {
				panic(err)
			}
			w, err := worker.New(c, worker.Config{Queues: []worker.Queue{{Name: "default", Slots: 5}}, Sweep: true})
			if err != nil {
				panic(err)
			}
			running, stop := context.WithCancel(ctx)
			worker.Handle(w, func(_ context.Context, j *worker.Job[report]) error {
				fmt.Printf("%s: %s of %d days\n", mode, j.Metadata[client.MetadataSchedule], j.Args.Days)
				stop()
				return nil
			})
			if err := w.Run(running); err != nil {
				panic(err)
			}
			e, err := c.RunSchedule(ctx, "daily-report") // now, whatever its time
			if err != nil {
				panic(err)
			}
			row, err := c.Job(ctx, e.ID)
			fmt.Println(row.Kind, row.State == job.Available, row.Metadata[client.MetadataTick], err)
		})
	}
	// Output:
	// miniredis: heartbeat of 7 days
	// report.daily true by hand <nil>
	// none: heartbeat of 7 days
	// report.daily true by hand <nil>
}

// withScheduled calls f with a client on a schema of its own.
func withScheduled(mode testenv.RedisMode, f func(ctx context.Context, c *client.Client)) {
	t := &exampleT{}
	defer t.end()
	pool, namespace := testenv.Schema(t)
	c, err := client.New(pool, client.Config{Namespace: namespace, Redis: testenv.RedisClient(t, mode)})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	f(context.Background(), c)
}
