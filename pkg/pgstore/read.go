package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirq/weir/pkg/job"
)

// Job returns a job with its payload, result and attempts, or ErrNotFound.
func (s *Store) Job(ctx context.Context, id job.ID) (job.Row, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	row, err := scanStatus(s.row(ctx, s.sql["job"], [16]byte(id)))
	if errors.Is(err, pgx.ErrNoRows) {
		return job.Row{}, ErrNotFound
	}
	if err != nil {
		return job.Row{}, fmt.Errorf("read job: %w", Classify(err))
	}
	row.Attempts, err = s.Attempts(ctx, id)
	if n := len(row.Attempts); n > 0 && row.Error == "" && row.State != job.Completed {
		row.Error = row.Attempts[n-1].Error
	}
	return row, err
}

// Page selects jobs, newest id first. Zero fields do not filter.
type Page struct {
	Before job.ID
	Queue  string
	Kind   string
	State  job.State
	Tag    string
	Key    string // of a lock or a rate
	Since  time.Time
	Limit  int
}

// Jobs returns a page of jobs, without their attempts.
func (s *Store) Jobs(ctx context.Context, p Page) ([]job.Row, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if p.Before.IsZero() {
		for i := range p.Before {
			p.Before[i] = 0xff
		}
	}
	rows, err := s.query(ctx, s.sql["jobs"], [16]byte(p.Before), p.Queue, p.Kind, string(p.State), p.Tag,
		[16]byte(FloorID(p.Since)), int32(p.Limit), p.Key)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", Classify(err))
	}
	defer rows.Close()
	var out []job.Row
	for rows.Next() {
		row, err := scanStatus(rows)
		if err != nil {
			return nil, fmt.Errorf("list jobs: %w", err)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list jobs: %w", Classify(err))
	}
	return out, nil
}

// FloorID returns the least id of an instant, to the millisecond; the zero ID before 1970.
func FloorID(t time.Time) (id job.ID) {
	ms := max(t.UnixMilli(), 0)
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

func scanStatus(row pgx.Row) (job.Row, error) {
	var (
		r        job.Row
		session  pgtype.UUID
		parent   pgtype.UUID
		times    [6]*time.Time
		timeout  *int64
		backoff  *string
		metadata []byte
		text     [2]*string
		locks    []string
		limits   []int32
		rates    []string
	)
	err := row.Scan((*[16]byte)(&r.ID), &r.Kind, &r.Queue, &r.Priority, &r.State, &r.Attempt, &r.MaxAttempts, &r.Crashes,
		&r.Fence, &session, &times[0], &times[1], &times[2], &times[3], (*[]byte)(&r.Result), &text[0], &times[4], &times[5],
		(*[]byte)(&r.Payload), &timeout, &backoff, &r.Tags, &metadata, &text[1], &parent, &locks, &limits, &rates,
		(*int8)(&r.Mode))
	if err != nil {
		return job.Row{}, err
	}
	r.Session, r.ParentID = session.Bytes, parent.Bytes
	r.ReadyAt, r.ClaimedAt, r.FinishedAt = deref(times[0]), deref(times[1]), deref(times[2])
	r.ExpiresAt, r.EnqueuedAt, r.ScheduledAt = deref(times[3]), deref(times[4]), deref(times[5])
	r.Timeout = timeoutOf(timeout)
	r.Backoff, _ = job.ParseBackoff(deref(backoff))
	r.Keys, r.Metadata = job.JoinKeys(locks, limits, rates), job.DecodeMetadata(metadata)
	r.Error, r.Trace = deref(text[0]), deref(text[1])
	return r, nil
}

// Attempts returns a job's failed and interrupted attempts, oldest first.
func (s *Store) Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.sql["attempts"], [16]byte(id))
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", Classify(err))
	}
	defer rows.Close()
	var out []job.Attempt
	for rows.Next() {
		var (
			a       job.Attempt
			session pgtype.UUID
		)
		if err := rows.Scan(&a.Attempt, &a.Fence, &a.Outcome, &a.Error, &a.Stack, &session, &a.StartedAt, &a.EndedAt); err != nil {
			return nil, fmt.Errorf("read attempts: %w", err)
		}
		a.Session = session.Bytes
		out = append(out, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read attempts: %w", Classify(err))
	}
	return out, nil
}

// Outcome is how a job ended.
type Outcome struct {
	State   job.State
	Fence   int
	Session job.ID
	Kind    string // of a dead job; empty for a completed one
	Result  []byte
	Error   string
}

// Outcomes returns the end of those of ids that have ended.
func (s *Store) Outcomes(ctx context.Context, ids []job.ID) (map[job.ID]Outcome, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("outcome_v1", "id, state, fence, session, kind, result, error", 1), raw(ids))
	if err != nil {
		return nil, fmt.Errorf("read outcomes: %w", Classify(err))
	}
	defer rows.Close()
	out := make(map[job.ID]Outcome, len(ids))
	for rows.Next() {
		var (
			id      [16]byte
			o       Outcome
			session pgtype.UUID
			text    *string
		)
		if err := rows.Scan(&id, &o.State, &o.Fence, &session, &o.Kind, &o.Result, &text); err != nil {
			return nil, fmt.Errorf("read outcomes: %w", err)
		}
		o.Session, o.Error = session.Bytes, deref(text)
		out[id] = o
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read outcomes: %w", Classify(err))
	}
	return out, nil
}

// Live reports whether a job is not finished.
func (s *Store) Live(ctx context.Context, id job.ID) (live bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err = s.row(ctx, s.sql["exists"], [16]byte(id)).Scan(&live); err != nil {
		return false, fmt.Errorf("look for job: %w", Classify(err))
	}
	return live, nil
}

// FinishTx completes a job in the caller's transaction: call it on s.On(tx). ErrSessionLost means that the claim has
// ended and the transaction must be rolled back.
func (s *Store) FinishTx(ctx context.Context, session job.ID, h Held, result []byte) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var id [16]byte
	err := s.row(ctx, s.sql["finish_tx"], [16]byte(session), [16]byte(h.ID), int32(h.Fence), text(string(result))).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrSessionLost
	}
	if err != nil {
		return fmt.Errorf("finish in transaction: %w", Classify(err))
	}
	return nil
}
