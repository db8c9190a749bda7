package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// DeadSession is a process whose lease ended.
type DeadSession struct {
	ID   job.ID
	Role string
	Host string
	PID  int
}

// OrphanSessions returns sessions that running jobs name and that have no row.
func (s *Store) OrphanSessions(ctx context.Context) ([]job.ID, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.sql["orphan_sessions"])
	if err != nil {
		return nil, fmt.Errorf("look for orphan sessions: %w", Classify(err))
	}
	got, err := readIDs(rows, 0)
	if err != nil {
		return nil, fmt.Errorf("look for orphan sessions: %w", Classify(err))
	}
	ids := make([]job.ID, 0, len(got))
	for id := range got {
		ids = append(ids, id)
	}
	return ids, nil
}

// Recovered is a job that a dead process ran.
type Recovered struct {
	ID      job.ID
	Kind    string
	Queue   string
	Attempt int // attempts used: the interrupted one is given back
	Crashes int
	Session job.ID    // that died
	State   job.State // Available, or final: Discarded after the third crash, Cancelled if that was asked
	Due     time.Time // zero if final
	Freed   []string  // locks that are free now, to Pass
	Failure FailureJob
}

// Recover gives away at most limit jobs of dead sessions and of orphans (OrphanSessions, found in an earlier
// statement), in one transaction. Fewer than limit means that nothing is left. One that is due again at once keeps its
// locks for reserve, the poll interval and 2 s (zero: 7 s), so that it keeps its place.
func (s *Store) Recover(ctx context.Context, orphans []job.ID, limit int, reserve time.Duration) ([]Recovered, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("recover_v1",
		"job_id, job_kind, job_queue, job_attempt, job_crashes, was, final, due, freed, failure_kind, failure, refused", 3), raw(orphans), int32(limit),
		reserveMillis(reserve))
	if err != nil {
		return nil, fmt.Errorf("recover: %w", Classify(err))
	}
	defer rows.Close()
	var out []Recovered
	for rows.Next() {
		var (
			r     Recovered
			final *int16
			due   *time.Time
			f     failureRow
		)
		if err := rows.Scan(append([]any{(*[16]byte)(&r.ID), &r.Kind, &r.Queue, &r.Attempt, &r.Crashes, (*[16]byte)(&r.Session), &final, &due,
			&r.Freed}, f.targets()...)...); err != nil {
			return nil, fmt.Errorf("recover: %w", err)
		}
		r.State, r.Due, r.Failure = job.Available, deref(due), f.job()
		if final != nil {
			r.State = job.DeadState(*final)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("recover: %w", Classify(err))
	}
	return out, nil
}

// Ended names a job that a sweep ended.
type Ended struct {
	ID    job.ID
	Kind  string
	Queue string
	Freed []string // Expire: its locks and those it waited for, to Pass
	Fence int      // Expire: before it ended
	Rates []job.Key
}

// Expire ends at most limit unstarted jobs whose time has passed.
func (s *Store) Expire(ctx context.Context, limit int) ([]Ended, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("expire_v1", "job_id, job_kind, job_queue, freed, last_fence, rates", 1), int32(limit))
	if err != nil {
		return nil, fmt.Errorf("expire: %w", Classify(err))
	}
	defer rows.Close()
	var out []Ended
	for rows.Next() {
		var (
			e     Ended
			rates []string
		)
		if err := rows.Scan((*[16]byte)(&e.ID), &e.Kind, &e.Queue, &e.Freed, &e.Fence, &rates); err != nil {
			return nil, fmt.Errorf("expire: %w", err)
		}
		e.Rates = job.JoinKeys(nil, nil, rates)
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("expire: %w", Classify(err))
	}
	return out, nil
}
