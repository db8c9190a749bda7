package weirtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// Recorder stands in for a client in unit tests without a database: it checks jobs as a client does and keeps them. Let the
// code under test ask for what it calls, in an interface of its own, which *client.Client and *Recorder both fit:
//
//	type enqueuer interface {
//		Enqueue(ctx context.Context, args job.Args, options ...job.Options) (client.Enqueued, error)
//	}
//
// RequireEnqueued takes a Recorder in the place of a database. Nothing runs; transactions are not looked at, and may be nil:
// a job is recorded though its transaction is rolled back. A unique key is not held against other jobs. A Recorder is safe
// for concurrent use; its zero value is ready.
type Recorder struct {
	// Fail, if it is set, is what every call returns, and nothing is recorded: for the code's own handling of errors.
	Fail error

	mu   sync.Mutex
	ids  job.IDs
	rows []job.Row
}

// Jobs returns what was enqueued, oldest first.
func (r *Recorder) Jobs() []job.Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.rows)
}

// Reset forgets what was enqueued.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = nil
}

// Enqueue records a job; see client.Client.Enqueue.
func (r *Recorder) Enqueue(ctx context.Context, args job.Args, options ...job.Options) (client.Enqueued, error) {
	var o job.Options
	for _, over := range options {
		o = o.Merge(over)
	}
	got, err := r.EnqueueMany(ctx, []job.Spec{{Args: args, Options: o}})
	if err != nil {
		return client.Enqueued{}, err
	}
	return got[0], nil
}

// EnqueueMany records up to 10,000 jobs, all or none; see client.Client.EnqueueMany.
func (r *Recorder) EnqueueMany(ctx context.Context, jobs []job.Spec) ([]client.Enqueued, error) {
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("enqueue: %w", context.Cause(ctx))
	case r.Fail != nil:
		return nil, r.Fail
	case len(jobs) > job.MaxBatch:
		return nil, &job.FieldError{Field: "jobs", Got: fmt.Sprint(len(jobs)), Limit: fmt.Sprintf("at most %d a call", job.MaxBatch)}
	}
	rows := make([]job.Row, len(jobs))
	for i, spec := range jobs {
		var err error
		if rows[i], err = rowOf(r.ids.New, spec.Args, spec.Options); err != nil {
			var field *job.FieldError
			if errors.As(err, &field) && len(jobs) > 1 {
				field.Index = i
			}
			return nil, err
		}
		r.queued(&rows[i])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]client.Enqueued, len(rows))
	for i, row := range rows {
		known := slices.ContainsFunc(r.rows, func(old job.Row) bool { return old.ID == row.ID })
		if !known {
			r.rows = append(r.rows, row)
		}
		out[i] = client.Enqueued{ID: row.ID, Duplicate: known}
	}
	return out, nil
}

// queued makes a row as it is before its first claim.
func (r *Recorder) queued(row *job.Row) {
	row.State, row.Attempt, row.Fence, row.ClaimedAt = job.Available, 0, 0, time.Time{}
	if row.ReadyAt.After(row.EnqueuedAt) {
		row.State = job.Scheduled
	}
}

// EnqueueTx records a job; tx is not looked at.
func (r *Recorder) EnqueueTx(ctx context.Context, _ pgx.Tx, args job.Args, options ...job.Options) (client.Enqueued, error) {
	return r.Enqueue(ctx, args, options...)
}

// EnqueueManyTx records jobs; tx is not looked at.
func (r *Recorder) EnqueueManyTx(ctx context.Context, _ pgx.Tx, jobs []job.Spec) ([]client.Enqueued, error) {
	return r.EnqueueMany(ctx, jobs)
}

// EnqueueSQLTx records a job; tx is not looked at.
func (r *Recorder) EnqueueSQLTx(ctx context.Context, _ client.SQLTx, args job.Args, options ...job.Options) (client.Enqueued, error) {
	return r.Enqueue(ctx, args, options...)
}
