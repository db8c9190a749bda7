package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// Claim identity: what a result must carry to be accepted.

// Held is a job and the fence under which this session holds it.
type Held struct {
	ID    job.ID
	Fence int
}

// Completion is a job that completed, and its result: JSON, or nil for none.
type Completion struct {
	Held
	Result []byte
}

// Finish writes completions in one statement, durably. It returns the ids that were accepted; one that is missing was
// fenced off: its claim had ended, and nothing of it was written. An error says nothing about which were written, and
// sending them again is safe: what was written is fenced off then, and Outcomes tells.
func (s *Store) Finish(ctx context.Context, session job.ID, done []Completion) (map[job.ID]bool, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	slices.SortFunc(done, func(a, b Completion) int { return slices.Compare(a.ID[:], b.ID[:]) })
	ids, fences := make([][16]byte, len(done)), make([]int32, len(done))
	var results []*string
	for i := range done {
		ids[i], fences[i] = done[i].ID, int32(done[i].Fence)
		put(&results, len(done), i, text(string(done[i].Result)))
	}
	rows, err := s.query(ctx, s.call("finish_v1", "finish_v1", 4), [16]byte(session), ids, fences, results)
	if err != nil {
		return nil, fmt.Errorf("finish %d jobs: %w", len(done), Classify(err))
	}
	got, err := readIDs(rows, len(done))
	if err != nil {
		return nil, fmt.Errorf("finish %d jobs: %w", len(done), Classify(err))
	}
	return got, nil
}

func readIDs(rows pgx.Rows, n int) (map[job.ID]bool, error) {
	defer rows.Close()
	got := make(map[job.ID]bool, n)
	for rows.Next() {
		var id [16]byte
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		got[id] = true
	}
	return got, rows.Err()
}

// Failure is an attempt that ended without completing.
type Failure struct {
	Held
	Outcome string        // the word in attempts: failed, timed out…; Retry leaves no row there for ""
	Error   string        // sanitised here
	Stack   string        // sanitised here
	Ran     time.Duration // how long the handler ran
	Back    bool          // the attempt is not counted
	Wait    time.Duration // Retry: until it is due again
	Hold    string        // Retry: a rate that nobody starts a job with for so long (job.RateBackoff); "": none
	Final   int16         // Bury: job.DeadDiscarded, …
}

// Retry puts failed or snoozed jobs back. It returns when each accepted job is due on the database clock, and the locks
// that are free now, to Pass; a job that is missing was fenced off, or somebody asked to cancel it: Bury it with
// job.DeadCancelled, which tells the two apart.
func (s *Store) Retry(ctx context.Context, session job.ID, failed []Failure) (due map[job.ID]time.Time, freed []string, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	a := failuresOf(failed)
	rows, err := s.query(ctx, s.call("retry_v1", "job_id, due, freed", 10), [16]byte(session), a.ids, a.fences, a.back, a.waits,
		a.ran, a.outcomes, a.errors, a.stacks, a.holds)
	if err != nil {
		return nil, nil, fmt.Errorf("retry %d jobs: %w", len(failed), Classify(err))
	}
	due, freed, err = readDue(rows, len(failed))
	if err != nil {
		return nil, nil, fmt.Errorf("retry %d jobs: %w", len(failed), Classify(err))
	}
	return due, freed, nil
}

func readDue(rows pgx.Rows, n int) (due map[job.ID]time.Time, freed []string, err error) {
	defer rows.Close()
	due = make(map[job.ID]time.Time, n)
	for rows.Next() {
		var (
			id   [16]byte
			at   time.Time
			keys []string
		)
		if err := rows.Scan(&id, &at, &keys); err != nil {
			return nil, nil, err
		}
		due[id], freed = at, append(freed, keys...)
	}
	return due, freed, rows.Err()
}

func readFreed(rows pgx.Rows, n int) (got map[job.ID]bool, freed []string, err error) {
	defer rows.Close()
	got = make(map[job.ID]bool, n)
	for rows.Next() {
		var (
			id   [16]byte
			keys []string
		)
		if err := rows.Scan(&id, &keys); err != nil {
			return nil, nil, err
		}
		got[id], freed = true, append(freed, keys...)
	}
	return got, freed, rows.Err()
}

// Release gives back jobs that did not run to an end, due after wait; the attempt is not counted. They keep their locks until
// linger after they are due, since their handlers may still run, or as reservations, so that they keep their places; zero:
// their locks are free now, to Pass. A job that somebody asked to cancel ends as cancelled. It returns when each accepted
// job is due, or when it ended.
func (s *Store) Release(ctx context.Context, session job.ID, held []Held, wait, linger time.Duration) (due map[job.ID]time.Time, freed []string, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	ids, fences := columnsOf(held)
	rows, err := s.query(ctx, s.call("release_v1", "job_id, due, freed", 5), [16]byte(session), ids, fences, wait.Milliseconds(),
		linger.Milliseconds())
	if err != nil {
		return nil, nil, fmt.Errorf("release %d jobs: %w", len(held), Classify(err))
	}
	due, freed, err = readDue(rows, len(held))
	if err != nil {
		return nil, nil, fmt.Errorf("release %d jobs: %w", len(held), Classify(err))
	}
	if len(due) < len(held) {
		keys, err := s.endAsked(ctx, session, held, due)
		return due, append(freed, keys...), err
	}
	return due, freed, nil
}

// endAsked ends those of held that were not released because somebody asked to cancel them, and adds them to due. What
// is missing for another reason was fenced off, and its fence keeps it from being ended here.
func (s *Store) endAsked(ctx context.Context, session job.ID, held []Held, due map[job.ID]time.Time) (freed []string, err error) {
	var asked []Failure
	for _, h := range held {
		if _, ok := due[h.ID]; !ok {
			asked = append(asked, Failure{Held: h, Outcome: "released", Error: "cancelled before it came to an end", Back: true, Final: job.DeadCancelled})
		}
	}
	b, err := s.Bury(ctx, session, asked)
	if err != nil || len(b.Ended) == 0 {
		return b.Freed, err
	}
	now, err := s.Now(ctx)
	for id := range b.Ended {
		due[id] = now
	}
	return b.Freed, err
}

// TimingOut marks jobs whose handlers ignore their timeout, so that everyone sees it.
func (s *Store) TimingOut(ctx context.Context, session job.ID, held []Held) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	ids, fences := columnsOf(held)
	if _, err := s.exec(ctx, s.sql["timing_out"], [16]byte(session), ids, fences); err != nil {
		return fmt.Errorf("mark %d jobs as timing out: %w", len(held), Classify(err))
	}
	return nil
}

func columnsOf(held []Held) (ids [][16]byte, fences []int32) {
	slices.SortFunc(held, func(a, b Held) int { return slices.Compare(a.ID[:], b.ID[:]) })
	ids, fences = make([][16]byte, len(held)), make([]int32, len(held))
	for i, h := range held {
		ids[i], fences[i] = h.ID, int32(h.Fence)
	}
	return ids, fences
}

type failureArrays struct {
	ids      [][16]byte
	fences   []int32
	finals   []int16
	back     []int32
	waits    []int64
	ran      []int64
	outcomes []*string
	errors   []*string
	stacks   []*string
	holds    []*string // nil when there is none
}

// failuresOf sorts by id (two batches that meet lock in one order) and makes every text storable.
func failuresOf(failed []Failure) failureArrays {
	slices.SortFunc(failed, func(a, b Failure) int { return cmp.Or(slices.Compare(a.ID[:], b.ID[:])) })
	n := len(failed)
	a := failureArrays{
		ids: make([][16]byte, n), fences: make([]int32, n), finals: make([]int16, n), back: make([]int32, n),
		waits: make([]int64, n), ran: make([]int64, n), outcomes: make([]*string, n), errors: make([]*string, n),
		stacks: make([]*string, n),
	}
	for i := range failed {
		f := &failed[i]
		a.ids[i], a.fences[i], a.finals[i] = f.ID, int32(f.Fence), f.Final
		if f.Back {
			a.back[i] = 1
		}
		a.waits[i], a.ran[i] = deref(millis(max(f.Wait, 0))), f.Ran.Milliseconds()
		a.outcomes[i] = text(f.Outcome)
		a.errors[i] = text(job.SanitizeText(f.Error, job.MaxErrorBytes))
		a.stacks[i] = text(job.SanitizeText(f.Stack, job.MaxStackBytes))
		put(&a.holds, n, i, text(f.Hold))
	}
	return a
}
