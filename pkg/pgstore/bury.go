package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirq/weir/pkg/job"
)

// FailureJob is the job that was added for one that was discarded (job.Options.OnDiscard), or why it was not.
type FailureJob struct {
	Kind    string // "": the discarded job wants none
	ID      job.ID // zero: it was not added
	Refused string // why not
}

// Buried is what became of jobs that were to end.
type Buried struct {
	Ended    map[job.ID]bool
	Freed    []string              // locks that are free now, to Pass
	Failures map[job.ID]FailureJob // by the discarded job
}

// Bury ends jobs that this session runs as discarded or cancelled, and adds their failure jobs. An id that is missing from what
// it returns was not accepted, as with Finish.
func (s *Store) Bury(ctx context.Context, session job.ID, failed []Failure) (Buried, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	a := failuresOf(failed)
	rows, err := s.query(ctx, s.call("bury_v1", "job_id, freed, failure_kind, failure, refused", 9), [16]byte(session), a.ids, a.fences,
		a.finals, a.ran, a.outcomes, a.errors, a.stacks, a.back)
	if err != nil {
		return Buried{}, fmt.Errorf("bury %d jobs: %w", len(failed), Classify(err))
	}
	defer rows.Close()
	b := Buried{Ended: make(map[job.ID]bool, len(failed))}
	for rows.Next() {
		var (
			id   [16]byte
			keys []string
			f    failureRow
		)
		if err := rows.Scan(append([]any{&id, &keys}, f.targets()...)...); err != nil {
			return Buried{}, fmt.Errorf("bury %d jobs: %w", len(failed), err)
		}
		b.Ended[id], b.Freed = true, append(b.Freed, keys...)
		if f.kind.Valid {
			if b.Failures == nil {
				b.Failures = make(map[job.ID]FailureJob)
			}
			b.Failures[id] = f.job()
		}
	}
	if err := rows.Err(); err != nil {
		return Buried{}, fmt.Errorf("bury %d jobs: %w", len(failed), Classify(err))
	}
	return b, nil
}

// failureRow is what bury says of a failure job.
type failureRow struct {
	kind, refused pgtype.Text
	id            pgtype.UUID
}

func (f *failureRow) targets() []any { return []any{&f.kind, &f.id, &f.refused} }

func (f *failureRow) job() FailureJob {
	return FailureJob{Kind: f.kind.String, ID: f.id.Bytes, Refused: f.refused.String}
}
