//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// What a handler of a job with keys may be told to do, beside doDeaf, doRetry and doFail.
const (
	doFinishTx = "finishtx" // complete in a transaction of its own
	doSnooze   = "snooze"   // the first time, come back after For
	doRelease  = "rollback" // FinishTx in a transaction that is rolled back: a failed attempt
	doBreak    = "break"    // panic in the first attempt
)

// keyed is the args of jobs with keys.
type keyed struct {
	Do   string        `json:"do,omitempty"`
	For  time.Duration `json:"for,omitempty"`
	Gate string        `json:"gate,omitempty"` // as in work
	Keys []string      `json:"keys"`           // what the book is to say; the job's own keys are the queue's affair
}

// Kind names the kind.
func (keyed) Kind() string { return "keyed" }

// keyed keeps the book around what it was told to do: it begins before that, and has ended before the handler returns or
// its transaction is committed.
func (h *handlers) keyed(ctx context.Context, j *worker.Job[keyed]) error {
	e := event{What: started, ID: j.ID, Attempt: j.Attempt, Crashes: j.Crashes, Fence: j.Fence}
	h.ledger.note(e)
	if err := h.book.begin(j.Row, h.ledger.process, j.Args.Keys); err != nil {
		h.ledger.note(event{What: unbooked, ID: j.ID, Err: err.Error()})
	}
	isOver := false
	over := func(err error) {
		if isOver {
			return
		}
		isOver = true
		if err := h.book.end(j.Row); err != nil {
			h.ledger.note(event{What: unbooked, ID: j.ID, Err: err.Error()})
		}
		e.What, e.Err = ended, errText(err)
		h.ledger.note(e)
	}
	err := h.hold(ctx, j, over)
	over(err)
	return err
}

func (h *handlers) hold(ctx context.Context, j *worker.Job[keyed], over func(error)) error {
	waits := ctx
	if j.Args.Do == doDeaf {
		waits = context.WithoutCancel(ctx)
	}
	if err := h.await(waits, work{For: j.Args.For, Gate: j.Args.Gate}); err != nil {
		return err
	}
	isFirst := j.Attempt == 1 && j.Crashes == 0 && time.Since(j.EnqueuedAt) < time.Minute
	switch j.Args.Do {
	case doRetry:
		if isFirst {
			return job.RetryIn(j.Args.For, errors.New("the first attempt"))
		}
	case doSnooze:
		if j.ClaimedAt.Sub(j.EnqueuedAt) < time.Second { // a snooze uses no attempt: it ends by the clock
			return job.Snooze(time.Second)
		}
	case doBreak:
		if isFirst {
			over(errors.New("a panic"))
			panic("told to")
		}
	case doFail:
		return job.Discard(errors.New("told to fail"))
	case doFinishTx, doRelease:
		return h.inTx(ctx, j, over)
	}
	return nil
}

// inTx completes the job in a transaction. Its keys are free with the commit, so the book ends before that.
func (h *handlers) inTx(ctx context.Context, j *worker.Job[keyed], over func(error)) error {
	tx, err := h.client.Pool().BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := j.FinishTx(ctx, tx, nil); err != nil {
		return err
	}
	if j.Args.Do == doRelease && j.Attempt == 1 {
		return nil
	}
	over(nil)
	return tx.Commit(ctx)
}
