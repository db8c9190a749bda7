package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// DueSchedule is a schedule that is due, or comes due soon.
type DueSchedule struct {
	Name   string
	Fence  int
	NextAt time.Time
	Rhythm Rhythm
	Now    time.Time // the database's time
}

// FireDue returns at most limit schedules that are due or come due within horizon, by their time and name, behind those of
// after; nil begins.
func (s *Store) FireDue(ctx context.Context, horizon time.Duration, after *DueSchedule, limit int) ([]DueSchedule, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	at, name := time.Unix(0, 0), ""
	if after != nil {
		at, name = after.NextAt, after.Name
	}
	const columns = "name, fence, next_at, cron, zone, every_ms, misfire, misfire_cap, db_now"
	rows, err := s.query(ctx, s.call("fire_due_v1", columns, 4), int32(horizon.Milliseconds()), at, name, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("look for due schedules: %w", Classify(err))
	}
	defer rows.Close()
	var out []DueSchedule
	for rows.Next() {
		var (
			d     DueSchedule
			cron  *string
			every *int64
		)
		r := &d.Rhythm
		if err := rows.Scan(&d.Name, &d.Fence, &d.NextAt, &cron, &r.Zone, &every, &r.Misfire, &r.MisfireCap, &d.Now); err != nil {
			return nil, fmt.Errorf("look for due schedules: %w", err)
		}
		r.Cron, r.Every = deref(cron), time.Duration(deref(every))*time.Millisecond
		out = append(out, d)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look for due schedules: %w", Classify(err))
	}
	return out, nil
}

// Tick is one step of a schedule.
type Tick struct {
	Name  string
	Fence int       // as read
	Old   time.Time // its next_at as read, or as the tick before leaves it
	New   time.Time // its next_at to come; zero: never again
	At    time.Time // the tick; zero: move on without a job
}

// Fired is what became of a tick.
type Fired struct {
	Place     int // of the tick in the call
	ID        job.ID
	Kind      string
	Queue     string
	Due       time.Time // when the job is due; zero: no job was added
	Delayed   bool      // it comes due later, by its Delay
	Duplicate bool      // its unique key was taken: no job was added
	Problem   string    // why the job was refused; the schedule has moved on
}

// Fire turns ticks into jobs and moves their schedules on, both or neither, in one statement. It returns those that it dealt with:
// the others were fired by somebody else, are being fired, or their schedule was changed since it was read.
func (s *Store) Fire(ctx context.Context, ticks []Tick) ([]Fired, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	n := len(ticks)
	names, fences := make([]string, n), make([]int32, n)
	olds, news, ats := make([]time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
	for i, t := range ticks {
		names[i], fences[i], olds[i], news[i], ats[i] = t.Name, int32(t.Fence), t.Old, instant(t.New), instant(t.At)
	}
	const columns = "place, job_id, job_kind, job_queue, due, is_delayed, duplicate, problem"
	rows, err := s.query(ctx, s.call("fire_v1", columns, 5), names, fences, olds, news, ats)
	if err != nil {
		return nil, fmt.Errorf("fire %d ticks: %w", n, Classify(err))
	}
	defer rows.Close()
	var out []Fired
	for rows.Next() {
		var (
			f                    Fired
			id                   *[16]byte
			kind, queue, problem *string
			due                  *time.Time
			delayed, duplicate   *bool
		)
		if err := rows.Scan(&f.Place, &id, &kind, &queue, &due, &delayed, &duplicate, &problem); err != nil {
			return nil, fmt.Errorf("fire %d ticks: %w", n, err)
		}
		f.Place-- // arrays of SQL begin at 1
		f.ID, f.Kind, f.Queue, f.Due = deref(id), deref(kind), deref(queue), deref(due)
		f.Delayed, f.Duplicate, f.Problem = deref(delayed), deref(duplicate), deref(problem)
		out = append(out, f)
	}
	if err := rows.Err(); err != nil { // the whole answer is read: nothing of it may be told before its commit
		return nil, fmt.Errorf("fire %d ticks: %w", n, Classify(err))
	}
	return out, nil
}

// RunSchedule enqueues the job of a schedule now, whether it is on or off; its ticks stay as they are. ErrNotFound if there is none.
func (s *Store) RunSchedule(ctx context.Context, name string) (f Fired, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("schedule_job_v1", "job_id, job_kind, job_queue, due, is_delayed, duplicate", 2), name, (*time.Time)(nil))
	if err != nil {
		return f, fmt.Errorf("run schedule: %w", Classify(err))
	}
	defer rows.Close()
	isThere := rows.Next()
	if isThere {
		if err := rows.Scan((*[16]byte)(&f.ID), &f.Kind, &f.Queue, &f.Due, &f.Delayed, &f.Duplicate); err != nil {
			return Fired{}, fmt.Errorf("run schedule: %w", err)
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return Fired{}, fmt.Errorf("run schedule: %w", Classify(err))
	}
	if !isThere {
		return Fired{}, ErrNotFound
	}
	return f, nil
}
