package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// Report is what a running job says of itself.
type Report struct {
	Checkpoint json.RawMessage // nil: the one before stays
	Progress   *job.Progress   // nil: the one before stays
}

// Report stores what the current claim of a job says. ErrSessionLost means that the claim has ended: nothing was written.
func (s *Store) Report(ctx context.Context, session job.ID, held Held, r Report) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var (
		id      [16]byte
		percent *int16
		note    *string
	)
	if r.Progress != nil {
		p := int16(r.Progress.Percent)
		percent, note = &p, text(r.Progress.Note)
	}
	err := s.row(ctx, s.sql["report"], [16]byte(held.ID), int32(held.Fence), [16]byte(session), text(string(r.Checkpoint)),
		percent, note).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrSessionLost
	}
	if err != nil {
		return fmt.Errorf("report: %w", Classify(err))
	}
	return nil
}

// Reported returns what a job has last said of itself; the zero Report if it has said nothing.
func (s *Store) Reported(ctx context.Context, id job.ID) (r Report, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var (
		percent *int16
		note    *string
		at      time.Time
		fence   int32
	)
	err = s.row(ctx, s.sql["reported"], [16]byte(id)).Scan((*[]byte)(&r.Checkpoint), &percent, &note, &at, &fence)
	if errors.Is(err, pgx.ErrNoRows) {
		return Report{}, nil
	}
	if err != nil {
		return Report{}, fmt.Errorf("read report: %w", Classify(err))
	}
	if percent != nil {
		r.Progress = &job.Progress{Percent: int(*percent), Note: deref(note), At: at}
	}
	return r, nil
}

// ReportRow is a row that Reports has seen.
type ReportRow struct {
	ID    job.ID
	Fence int
}

// Reports looks at up to limit reports after a job and returns those that nobody needs any more: the job has ended, is not among
// the dead, and has said nothing for as long as age. next is nil at the end of the table.
func (s *Store) Reports(ctx context.Context, after job.ID, age time.Duration, limit int) (over []ReportRow, next *job.ID, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.sql["reports"], age.Milliseconds(), [16]byte(after), int32(limit))
	if err != nil {
		return nil, nil, fmt.Errorf("look at reports: %w", Classify(err))
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var (
			r    ReportRow
			gone bool
		)
		if err := rows.Scan((*[16]byte)(&r.ID), &r.Fence, &gone); err != nil {
			return nil, nil, fmt.Errorf("look at reports: %w", err)
		}
		after = r.ID
		if n++; gone {
			over = append(over, r)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("look at reports: %w", Classify(err))
	}
	if n == limit {
		next = &after
	}
	return over, next, nil
}

// DeleteReports forgets reports that Reports has returned and returns how many there were.
func (s *Store) DeleteReports(ctx context.Context, over []ReportRow) (int, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	ids, fences := make([][16]byte, len(over)), make([]int32, len(over))
	for i, r := range over {
		ids[i], fences[i] = r.ID, int32(r.Fence)
	}
	tag, err := s.exec(ctx, s.sql["reports_delete"], ids, fences)
	if err != nil {
		return 0, fmt.Errorf("delete reports: %w", Classify(err))
	}
	return int(tag.RowsAffected()), nil
}
