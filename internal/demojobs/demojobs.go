package demojobs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// DirEnv names the directory below which checksum reads. Without it that is the current one.
const DirEnv = "WEIR_DEMO_DIR"

// Sleep waits for so many milliseconds.
type Sleep struct {
	MS int64 `json:"ms"`
}

// Kind names the jobs.
func (Sleep) Kind() string { return "sleep" }

// Fail fails its first attempts.
type Fail struct {
	Times int `json:"times"`
}

// Kind names the jobs.
func (Fail) Kind() string { return "fail" }

// Options make a failed attempt follow soon, so that one can watch it.
func (Fail) Options() job.Options { return job.Options{Backoff: job.Fixed(time.Second)} }

// Echo gives its payload back.
type Echo struct{ json.RawMessage }

// Kind names the jobs.
func (Echo) Kind() string { return "echo" }

// Register adds all four handlers to w. dir is the base directory of checksum; empty means $WEIR_DEMO_DIR, else the current
// directory.
func Register(w *worker.Worker, dir string) error {
	if dir == "" {
		dir = os.Getenv(DirEnv)
	}
	if dir == "" {
		dir = "."
	}
	sums, err := OpenSums(dir)
	if err != nil {
		return err
	}
	worker.HandleResult(w, sums.Checksum, worker.HandlerOptions{Timeout: 5 * time.Minute})
	worker.Handle(w, sleep)
	worker.Handle(w, fail, worker.HandlerOptions{Backoff: job.Fixed(time.Second)})
	worker.HandleResult(w, echo)
	return nil
}

// sleep waits as long as it is told, unless it is stopped.
func sleep(ctx context.Context, j *worker.Job[Sleep]) error {
	d := time.Duration(j.Args.MS) * time.Millisecond
	if j.Args.MS < 0 || d/time.Millisecond != time.Duration(j.Args.MS) {
		return job.Cancel(fmt.Errorf("ms is %d", j.Args.MS))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func fail(_ context.Context, j *worker.Job[Fail]) error {
	if j.Attempt <= j.Args.Times {
		return fmt.Errorf("told to fail %d times, this is attempt %d", j.Args.Times, j.Attempt)
	}
	return nil
}

func echo(_ context.Context, j *worker.Job[Echo]) (json.RawMessage, error) {
	return j.Args.RawMessage, nil
}
