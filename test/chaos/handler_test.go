//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// What a handler may be told to do, beside nothing.
const (
	doExit    = "exit"    // os.Exit(2)
	doKill    = "kill"    // SIGKILL for its own process
	doPanic   = "panic"   // a panic in a goroutine of its own, which nobody can catch
	doSpin    = "spin"    // calculate without a pause
	doDeaf    = "deaf"    // wait without looking at its context
	doCleanUp = "cleanup" // work for a second after its context has ended, with the database
	doFollow  = "follow"  // enqueue a job when its context has ended
	doRetry   = "retry"   // fail the first attempt and ask to be run again after For
	doFail    = "fail"    // end with an error, for good
)

// work is the args of all jobs here.
type work struct {
	Do   string        `json:"do,omitempty"`
	For  time.Duration `json:"for,omitempty"`
	Gate string        `json:"gate,omitempty"` // a file that opens it: the handler does not return before it exists
}

// Kind names the one kind.
func (work) Kind() string { return "work" }

type handlers struct {
	client *client.Client
	ledger *ledger
	book   *book // nil: no jobs with keys come here
}

// work notes its start and its end around what it was told to do.
func (h *handlers) work(ctx context.Context, j *worker.Job[work]) error {
	e := event{ID: j.ID, Attempt: j.Attempt, Crashes: j.Crashes, Fence: j.Fence}
	e.What = started
	h.ledger.note(e)
	err := h.do(ctx, j)
	e.What, e.Err = ended, errText(err)
	h.ledger.note(e)
	return err
}

func (h *handlers) do(ctx context.Context, j *worker.Job[work]) error {
	switch j.Args.Do {
	case doExit:
		os.Exit(2)
	case doKill:
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		<-ctx.Done()
	case doPanic:
		go panic("a handler's own goroutine")
		<-ctx.Done()
	case doSpin:
		for began := time.Now(); time.Since(began) < j.Args.For; {
			continue
		}
		return nil
	case doRetry:
		if j.Attempt == 1 {
			return job.RetryIn(j.Args.For, errors.New("the first attempt"))
		}
		return nil
	case doDeaf:
		ctx = context.WithoutCancel(ctx)
	}
	err := h.await(ctx, j.Args)
	switch {
	case j.Args.Do == doFail && err == nil:
		return job.Discard(errors.New("told to fail"))
	case err != nil && j.Args.Do == doCleanUp:
		return errors.Join(err, h.cleanUp(j.ID))
	case err != nil && j.Args.Do == doFollow:
		return errors.Join(err, h.follow(context.WithoutCancel(ctx)))
	}
	return err
}

// await waits for its time and its gate, or the end of ctx. A gate can be opened for one process alone.
func (h *handlers) await(ctx context.Context, w work) error {
	timer := time.NewTimer(w.For)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if w.Gate == "" {
		return nil
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		for _, name := range []string{w.Gate, w.Gate + "." + h.ledger.process} {
			if _, err := os.Stat(name); err == nil {
				return nil
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// cleanUp is what a handler does with the application's pool after it was told to stop.
func (h *handlers) cleanUp(id job.ID) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := h.client.Pool().Exec(ctx, "SELECT pg_sleep(1)")
	h.ledger.note(event{What: noted, ID: id, Err: "clean-up: " + errText(err)})
	return err
}

func (h *handlers) follow(ctx context.Context) error {
	e, err := h.client.Enqueue(ctx, work{})
	if err == nil {
		h.ledger.note(event{What: acked, ID: e.ID})
	}
	return err
}
