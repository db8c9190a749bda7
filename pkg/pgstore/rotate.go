package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirq/weir/pkg/job"
)

// Parents are the partitioned tables, in the order in which they are retired: outcomes before jobs, since the log
// keeps rows whose outcome is there.
var Parents = []string{"outcomes", "dead", "attempts", "jobs"}

// timeColumns are the columns by which the parents are cut.
var timeColumns = map[string]string{"outcomes": "finished_at", "dead": "finished_at", "attempts": "ended_at", "jobs": "id"}

// Partition is a partition of one of the Parents.
type Partition struct {
	Parent   string
	Name     string
	From, To time.Time // To is exclusive; both zero for a default partition and for one that Weir has not named
	Bytes    int64     // of its rows, without indexes
}

// IsDefault reports whether p takes what no other partition of its parent takes.
func (p Partition) IsDefault() bool { return p.Name == p.Parent+"_default" }

// bounds returns p's range as the server reads it.
func (p Partition) bounds() (from, to string) {
	if p.Parent == "jobs" {
		return FloorID(p.From).UUID(), FloorID(p.To).UUID()
	}
	const layout = "2006-01-02 15:04:05+00"
	return p.From.UTC().Format(layout), p.To.UTC().Format(layout)
}

// Partitions returns the partitions of all Parents, in the order of parent and name.
func (s *Store) Partitions(ctx context.Context) ([]Partition, error) {
	return s.partitions(ctx, "rotate_partitions", true)
}

// Guards returns the partitions for which GuardPartition was called and which are not attached yet. Bytes is zero.
func (s *Store) Guards(ctx context.Context) ([]Partition, error) {
	return s.partitions(ctx, "rotate_guards", false)
}

func (s *Store) partitions(ctx context.Context, statement string, sized bool) ([]Partition, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.sql[statement])
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", Classify(err))
	}
	defer rows.Close()
	var all []Partition
	for rows.Next() {
		var p Partition
		into := []any{&p.Parent, &p.Name, &p.Bytes}
		if !sized {
			into = into[:2]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("list partitions: %w", err)
		}
		if parent, from, to, ok := ParsePartition(p.Name); ok && parent == p.Parent {
			p.From, p.To = from, to
		}
		all = append(all, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list partitions: %w", Classify(err))
	}
	return all, nil
}

// Added says what became of AddPartition.
type Added int

// The answers of AddPartition.
const (
	AddedBefore Added = iota // it was there
	AddedNow
	LeftToDefault // the default partition has rows of this range, which it keeps until their time is over
	TooLarge      // the default partition is too large to be searched while writers wait: GuardPartition first
)

// AddPartition makes and attaches p, given its Parent and the name and bounds of PartitionName. present says that rows
// of the range can arrive already. It waits 50 ms for each lock it needs; then IsBusy is true of the error.
func (s *Store) AddPartition(ctx context.Context, p Partition, present bool) (Added, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	from, to := p.bounds()
	var answer int
	err := s.row(ctx, s.call("rotate_add_v1", "rotate_add_v1", 6), p.Parent, p.Name, from, to, timeColumns[p.Parent], present).
		Scan(&answer)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "23514" { // a row of the range arrived between the look and the lock
		return LeftToDefault, nil
	}
	if err != nil {
		return 0, fmt.Errorf("add partition %s: %w", p.Name, Classify(err))
	}
	return Added(answer), nil
}

// GuardPartition gives p's default partition a constraint, so that attaching p need not search it while writers wait.
// The search is made here, while all others go on; within bounds it, not the store's timeout. Until AddPartition or
// UnguardPartition takes the constraint away, rows of the range are refused: do not guard a range that begins soon.
func (s *Store) GuardPartition(ctx context.Context, p Partition, within time.Duration) error {
	if err := s.guard(ctx, p, true); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := s.exec(ctx, "ALTER TABLE "+pgx.Identifier{s.schema, p.Parent + "_default"}.Sanitize()+
		" VALIDATE CONSTRAINT "+pgx.Identifier{p.Name + "_guard"}.Sanitize())
	if err != nil {
		return fmt.Errorf("search %s_default for rows of %s: %w", p.Parent, p.Name, Classify(err))
	}
	return nil
}

// UnguardPartition takes back what GuardPartition did.
func (s *Store) UnguardPartition(ctx context.Context, p Partition) error {
	return s.guard(ctx, p, false)
}

func (s *Store) guard(ctx context.Context, p Partition, make bool) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	from, to := p.bounds()
	_, err := s.exec(ctx, s.call("rotate_guard_v1", "rotate_guard_v1", 6), p.Parent, p.Name, from, to, make, timeColumns[p.Parent])
	if err != nil {
		return fmt.Errorf("guard partition %s: %w", p.Name, Classify(err))
	}
	return nil
}

// EmptyPartition truncates p, whose time is over. It returns false, and does nothing, while p is a partition of jobs
// with a row that a live job needs and Carry has not copied. It waits 50 ms for each lock; then IsBusy is true of the
// error.
func (s *Store) EmptyPartition(ctx context.Context, p Partition) (emptied bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var from, to any
	if p.Parent == "jobs" {
		from, to = [16]byte(FloorID(p.From)), [16]byte(FloorID(p.To))
	}
	if err = s.row(ctx, s.call("rotate_empty_v1", "rotate_empty_v1", 3), p.Name, from, to).Scan(&emptied); err != nil {
		return false, fmt.Errorf("empty partition %s: %w", p.Name, Classify(err))
	}
	return emptied, nil
}

// DropPartition drops p if it is empty. While it waits for the parent, 50 ms at most, everybody else waits too; then
// IsBusy is true of the error.
func (s *Store) DropPartition(ctx context.Context, p Partition) (dropped bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err = s.row(ctx, s.call("rotate_drop_v1", "rotate_drop_v1", 2), p.Parent, p.Name).Scan(&dropped); err != nil {
		return false, fmt.Errorf("drop partition %s: %w", p.Name, Classify(err))
	}
	return dropped, nil
}

// Walked is what one batch of a walk in the order of ids did. Seen below the limit means that the walk is at its end.
type Walked struct {
	Last job.ID // where the next batch begins
	Seen int
	Done int // rows copied or deleted
}

// Carry copies log rows of the range (after, to) whose job is live or whose outcome is kept to jobs_kept, out of limit
// such jobs.
func (s *Store) Carry(ctx context.Context, after, to job.ID, limit int) (Walked, error) {
	return s.walk(ctx, "carry log rows over", "rotate_carry_v1", [16]byte(after), [16]byte(to), int32(limit))
}

// TidyKept deletes the rows of jobs_kept behind after that nobody needs any more, out of limit rows.
func (s *Store) TidyKept(ctx context.Context, after job.ID, limit int) (Walked, error) {
	return s.walk(ctx, "tidy kept log rows", "rotate_tidy_v1", [16]byte(after), int32(limit))
}

// TidyDefault deletes log rows of the range (after, to) from the default partition that were enqueued before before
// and that no live job needs there, out of limit rows.
func (s *Store) TidyDefault(ctx context.Context, after, to job.ID, before time.Time, limit int) (Walked, error) {
	return s.walk(ctx, "tidy default partition", "rotate_default_v1", [16]byte(after), [16]byte(to), before, int32(limit))
}

func (s *Store) walk(ctx context.Context, what, function string, args ...any) (w Walked, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var last *[16]byte
	var n [2]int64
	if err = s.row(ctx, s.call(function, "*", len(args)), args...).Scan(&last, &n[0], &n[1]); err != nil {
		return Walked{}, fmt.Errorf("%s: %w", what, Classify(err))
	}
	return Walked{Last: deref(last), Seen: int(n[0]), Done: int(n[1])}, nil
}

// TidyOld deletes rows of before before from the default partition of outcomes, dead or attempts, out of its first
// limit rows, and returns how many.
func (s *Store) TidyOld(ctx context.Context, parent string, before time.Time, limit int) (n int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	err = s.row(ctx, s.call("rotate_old_v1", "rotate_old_v1", 4), parent, timeColumns[parent], before, int32(limit)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("tidy %s_default: %w", parent, Classify(err))
	}
	return n, nil
}

// IsBusy reports whether err says that a lock was not free in time: nothing was done, and it is to be tried again.
func IsBusy(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}
