package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirq/weir/pkg/job"
)

func sorted(ids []job.ID) [][16]byte {
	b := raw(ids)
	slices.SortFunc(b, func(x, y [16]byte) int { return slices.Compare(x[:], y[:]) })
	return b
}

// Cancel ends waiting jobs as cancelled and asks running ones to stop. It returns the live jobs among ids: with the
// session that runs it, or the zero ID when the job has ended; and the locks to Pass: those that ended jobs had or waited for.
func (s *Store) Cancel(ctx context.Context, ids []job.ID, reason string) (live map[job.ID]job.ID, freed []string, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("cancel_v1", "job_id, asked, freed", 2), sorted(ids), job.SanitizeText(reason, job.MaxErrorBytes))
	if err != nil {
		return nil, nil, fmt.Errorf("cancel %d jobs: %w", len(ids), Classify(err))
	}
	defer rows.Close()
	live = make(map[job.ID]job.ID, len(ids))
	for rows.Next() {
		var (
			id    [16]byte
			asked pgtype.UUID
			keys  []string
		)
		if err := rows.Scan(&id, &asked, &keys); err != nil {
			return nil, nil, fmt.Errorf("cancel %d jobs: %w", len(ids), err)
		}
		live[id], freed = asked.Bytes, append(freed, keys...)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("cancel %d jobs: %w", len(ids), Classify(err))
	}
	return live, freed, nil
}

// Revived is a job that is due now by hand.
type Revived struct {
	Ended
	Due    time.Time
	Winner job.ID // of Revive: it stays dead, since this live job has its unique key. Zero otherwise
}

// Revive makes dead, retrying and scheduled jobs due now, under their ids. It returns those that are, and those that have a Winner.
func (s *Store) Revive(ctx context.Context, ids []job.ID) ([]Revived, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("revive_v1", "job_id, job_kind, job_queue, due, winner", 1), sorted(ids))
	if err != nil {
		return nil, fmt.Errorf("retry %d jobs: %w", len(ids), Classify(err))
	}
	defer rows.Close()
	var out []Revived
	for rows.Next() {
		var (
			r      Revived
			due    *time.Time
			winner pgtype.UUID
		)
		if err := rows.Scan((*[16]byte)(&r.ID), &r.Kind, &r.Queue, &due, &winner); err != nil {
			return nil, fmt.Errorf("retry %d jobs: %w", len(ids), err)
		}
		r.Due, r.Winner = deref(due), winner.Bytes
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("retry %d jobs: %w", len(ids), Classify(err))
	}
	return out, nil
}

// Delete forgets jobs that are not running, with their attempts. It returns the ids of which something was there, and the
// locks that they had or waited for, to Pass.
func (s *Store) Delete(ctx context.Context, ids []job.ID) (gone map[job.ID]bool, freed []string, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("delete_v1", "job_id, freed", 1), sorted(ids))
	if err != nil {
		return nil, nil, fmt.Errorf("delete %d jobs: %w", len(ids), Classify(err))
	}
	gone, freed, err = readFreed(rows, len(ids))
	if err != nil {
		return nil, nil, fmt.Errorf("delete %d jobs: %w", len(ids), Classify(err))
	}
	return gone, freed, nil
}

// Pause stops or resumes the starting of jobs of a queue or a kind; what is "queue" or "kind". What runs goes on. It
// reports whether something changed.
func (s *Store) Pause(ctx context.Context, what, name string, pause bool) (changed bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err = s.row(ctx, s.call("pause_v1", "pause_v1", 3), what, name, pause).Scan(&changed); err != nil {
		return false, fmt.Errorf("pause %s: %w", what, Classify(err))
	}
	return changed, nil
}

// Note writes an action done by hand to the actions table.
func (s *Store) Note(ctx context.Context, who, verb, target string, rows int) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	_, err := s.exec(ctx, s.sql["note"], job.SanitizeText(who, 255), verb, job.SanitizeText(target, 1024), int64(rows))
	if err != nil {
		return fmt.Errorf("note %s: %w", verb, Classify(err))
	}
	return nil
}

// MakeDue makes the delayed and retrying jobs of queues and kinds due now and returns how many there were.
func (s *Store) MakeDue(ctx context.Context, queues, kinds []string) (int, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	tag, err := s.exec(ctx, s.sql["make_due"], notNil(queues), notNil(kinds))
	if err != nil {
		return 0, fmt.Errorf("make jobs due: %w", Classify(err))
	}
	return int(tag.RowsAffected()), nil
}
