package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirq/weir/pkg/job"
)

// codeOwned is the SQLSTATE of a schedule that another owner has.
const codeOwned = "WE101"

// OwnedError reports that a schedule belongs to another owner than the one who declares it.
type OwnedError struct{ Name, Owner string }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("schedule %q belongs to owner %q", e.Name, e.Owner)
}

// Rhythm is when a schedule is due, as it is stored.
type Rhythm struct {
	Cron       string
	Zone       string
	Every      time.Duration // in whole milliseconds; zero: Cron
	Misfire    string        // once, skip or all
	MisfireCap int
}

// NewSchedule is a schedule to store. Job has no ID.
type NewSchedule struct {
	Name    string
	Rhythm  Rhythm
	Enabled bool
	Job     NewJob
	NextAt  time.Time // its first tick if it is new, its rhythm was changed or it comes to life
}

type jsonSchedule struct {
	Name       string     `json:"name"`
	Cron       *string    `json:"cron"`
	Zone       string     `json:"zone"`
	Every      *int64     `json:"every_ms"`
	Misfire    string     `json:"misfire"`
	MisfireCap int        `json:"misfire_cap"`
	Enabled    bool       `json:"enabled"`
	NextAt     *time.Time `json:"next_at"`
	Job        uniqueJob  `json:"job"`
}

// Synced is what a sync came to: the names of schedules.
type Synced struct {
	Older                   bool // a newer version has spoken: nothing was changed
	Added, Changed, Removed []string
}

// SyncSchedules makes list the schedules of owner, unless a newer version than this has done so. An *OwnedError means
// that nothing was changed.
func (s *Store) SyncSchedules(ctx context.Context, owner string, version int64, list []NewSchedule) (out Synced, err error) {
	entries := make([]jsonSchedule, len(list))
	for i := range list {
		n := &list[i]
		entries[i] = jsonSchedule{
			Name: n.Name, Cron: text(n.Rhythm.Cron), Zone: n.Rhythm.Zone, Every: millis(n.Rhythm.Every), Misfire: n.Rhythm.Misfire,
			MisfireCap: n.Rhythm.MisfireCap, Enabled: n.Enabled, NextAt: instant(n.NextAt), Job: uniqueJobOf(&n.Job),
		}
	}
	b, err := json.Marshal(entries)
	if err != nil {
		return out, fmt.Errorf("encode %d schedules: %w", len(list), err)
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("schedule_sync_v1", "what, coalesce(schedule, '')", 3), owner, version, string(b))
	if err != nil {
		return out, fmt.Errorf("sync schedules of %s: %w", owner, classifyOwned(err))
	}
	defer rows.Close()
	for rows.Next() {
		var what, name string
		if err := rows.Scan(&what, &name); err != nil {
			return Synced{}, fmt.Errorf("sync schedules of %s: %w", owner, err)
		}
		switch what {
		case "older":
			out.Older = true
		case "added":
			out.Added = append(out.Added, name)
		case "changed":
			out.Changed = append(out.Changed, name)
		case "removed":
			out.Removed = append(out.Removed, name)
		}
	}
	if err := rows.Err(); err != nil {
		return Synced{}, fmt.Errorf("sync schedules of %s: %w", owner, classifyOwned(err))
	}
	return out, nil
}

func classifyOwned(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == codeOwned {
		return &OwnedError{Name: pg.Message, Owner: pg.Detail}
	}
	return Classify(err)
}

// ScheduleRow is a schedule as it is stored. Instants are of the database clock.
type ScheduleRow struct {
	Name     string
	Owner    string
	Version  int64 // the newest of the owner's that has declared its schedules
	Fence    int
	NextAt   time.Time // zero: never again
	Declared bool      // whether its owner has it on
	Override *bool     // what was said by hand; nil: nothing
	Rhythm   Rhythm
	Kind     string
	Queue    string
	Payload  json.RawMessage
	LastAt   time.Time // the last tick that became a job; zero: none
	LastJob  job.ID
	Error    string    // why the last tick did not become a job; empty: it did
	Now      time.Time // when it was read
}

// Enabled reports whether the schedule fires.
func (r *ScheduleRow) Enabled() bool {
	if r.Override != nil {
		return *r.Override
	}
	return r.Declared
}

// Schedules returns the schedule called name, or all of them if it is empty, by name.
func (s *Store) Schedules(ctx context.Context, name string) ([]ScheduleRow, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.sql["schedule_list"], name)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", Classify(err))
	}
	defer rows.Close()
	var out []ScheduleRow
	for rows.Next() {
		var (
			r               ScheduleRow
			next, last      *time.Time
			cron, lastError *string
			every           *int64
			text            []byte
			lastJob         *[16]byte
		)
		err := rows.Scan(&r.Name, &r.Owner, &r.Fence, &next, &r.Declared, &r.Override, &cron, &r.Rhythm.Zone, &every, &r.Rhythm.Misfire,
			&r.Rhythm.MisfireCap, &text, &last, &lastJob, &lastError, &r.Version, &r.Now)
		if err != nil {
			return nil, fmt.Errorf("list schedules: %w", err)
		}
		r.NextAt, r.LastAt, r.LastJob, r.Error = deref(next), deref(last), deref(lastJob), deref(lastError)
		r.Rhythm.Cron, r.Rhythm.Every = deref(cron), time.Duration(deref(every))*time.Millisecond
		var j jsonJob
		if json.Unmarshal(text, &j) == nil { // a row edited by hand: what can be read of it
			r.Kind, r.Queue, r.Payload = j.Kind, j.Queue, json.RawMessage(j.Payload)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list schedules: %w", Classify(err))
	}
	return out, nil
}

// EnableSchedule switches a schedule that was read with fence on, due at next, or off. It reports whether it was still so.
func (s *Store) EnableSchedule(ctx context.Context, name string, fence int, on bool, next time.Time) (bool, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	tag, err := s.exec(ctx, s.sql["schedule_enable"], name, int32(fence), on, instant(next))
	if err != nil {
		return false, fmt.Errorf("switch schedule: %w", Classify(err))
	}
	return tag.RowsAffected() == 1, nil
}

// DeleteSchedule forgets a schedule until its owner declares it again, and returns how many there were: one or none.
func (s *Store) DeleteSchedule(ctx context.Context, name string) (int, error) {
	return s.forget(ctx, "schedule_delete", name)
}

// ForgetOwner forgets at which version an owner of schedules is, and returns how many owners there were: one or none.
func (s *Store) ForgetOwner(ctx context.Context, owner string) (int, error) {
	return s.forget(ctx, "schedule_forget", owner)
}

func (s *Store) forget(ctx context.Context, statement, name string) (int, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	tag, err := s.exec(ctx, s.sql[statement], name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", statement, Classify(err))
	}
	return int(tag.RowsAffected()), nil
}
