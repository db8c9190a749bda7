package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// NewJob is a job to insert. All fields but ID, Kind, Queue, Payload, Priority and MaxAttempts may be zero: not said.
type NewJob struct {
	ID          job.ID
	Kind        string
	Queue       string
	Payload     []byte // JSON, checked
	Priority    int
	MaxAttempts int
	Delay       time.Duration
	ScheduledAt time.Time
	ExpiresIn   time.Duration
	Timeout     time.Duration // job.NoTimeout: none
	Backoff     string
	Keys        []job.Key // checked, and with a timeout if there is a lock among them
	Unique      *Unique   // EnqueueUnique alone
	OnDiscard   string    // the kind of its failure job
	Tags        []string
	Metadata    map[string]string
	Trace       string
	Parent      job.ID
	Mode        job.Mode
	Known       bool // the id may be in the log already: it is a caller's own, or was sent before
}

// Enqueued is what a batch came to.
type Enqueued struct {
	Now        time.Time // of the database
	Inserted   int
	LeastReady time.Time       // when the first of the inserted is due; zero if none was inserted
	Duplicates map[job.ID]bool // ids that were in the log before

	// Of EnqueueUnique alone, by the ids that were sent:
	Winners  map[job.ID]Winner // those to whom jobs that were not stored have lost
	Replaced map[job.ID]job.ID // jobs that were ended for others
	Freed    []string          // locks that those had or waited for, to Pass
}

// Enqueue inserts jobs in one statement; the order of equal priorities is that of the slice. Jobs must come sorted by
// id. An id that is in the log already changes nothing. ErrClockAhead means that nothing was stored and ids must be
// made anew.
func (s *Store) Enqueue(ctx context.Context, jobs []NewJob) (Enqueued, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	fresh := true
	for i := range jobs {
		fresh = fresh && !jobs[i].Known
	}
	a := arraysOf(jobs)
	if fresh && a.isPlain() && s.mode == pgx.QueryExecModeCacheStatement { // not prepared, its plan costs more than it saves
		return s.enqueuePlain(ctx, a)
	}
	var (
		out   Enqueued
		least *time.Time
		dups  [][16]byte
	)
	args := []any{
		a.ids, a.kinds, a.queues, a.payloads, a.priorities, a.maxAttempts, a.delays, a.scheduled, a.expires, a.timeouts, a.backoffs,
		a.tags, a.metadata, a.traces, a.parents, fresh,
	}
	if a.locks != nil || a.rates != nil || a.modes != nil || a.failures != nil { // else they are not sent at all
		args = append(args, a.locks, a.limits, a.rates, a.modes, a.failures)
	}
	row := s.row(ctx, s.call("enqueue_v1", "db_now, inserted, least_ready, duplicates", len(args)), args...)
	if err := row.Scan(&out.Now, &out.Inserted, &least, &dups); err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %d jobs: %w", len(jobs), Classify(err))
	}
	if least != nil {
		out.LeastReady = *least
	}
	if out.Inserted < len(jobs) {
		out.Duplicates = make(map[job.ID]bool, len(dups))
		for _, id := range dups {
			out.Duplicates[id] = true
		}
	}
	return out, nil
}

// enqueuePlain inserts jobs of which enqueue_plain.sql can say all.
func (s *Store) enqueuePlain(ctx context.Context, a *arrays) (Enqueued, error) {
	rows, err := s.db.Query(ctx, s.sql["enqueue_plain"], s.mode,
		a.ids, a.kinds, a.queues, a.payloads, a.priorities, a.maxAttempts, a.timeouts, a.traces, a.parents)
	if err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %d jobs: %w", len(a.ids), Classify(err))
	}
	defer rows.Close()
	var out Enqueued
	for rows.Next() {
		if out.Inserted++; out.Inserted > 1 {
			continue // the first is the least
		}
		if err := rows.Scan(&out.LeastReady, &out.Now); err != nil {
			return Enqueued{}, fmt.Errorf("enqueue %d jobs: %w", len(a.ids), err)
		}
	}
	if err := rows.Err(); err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %d jobs: %w", len(a.ids), Classify(err))
	}
	if out.Inserted < len(a.ids) {
		return Enqueued{}, fmt.Errorf("enqueue %d jobs: %w", len(a.ids), ErrClockAhead)
	}
	return out, nil
}

// arrays holds a batch in columns. A column that no job needs stays nil and is sent as NULL.
type arrays struct {
	ids         [][16]byte
	kinds       []string
	queues      []string
	payloads    []string
	priorities  []int16
	maxAttempts []int32
	delays      []*int64
	scheduled   []*time.Time
	expires     []*int64
	timeouts    []*int64
	backoffs    []*string
	tags        []*string
	metadata    []*string
	traces      []*string
	parents     []*[16]byte
	locks       []*string
	limits      []*string
	rates       []*string
	modes       []*int16
	failures    []*string
}

// isPlain reports whether no job needs a column that enqueue_plain.sql leaves out.
func (a *arrays) isPlain() bool {
	return a.delays == nil && a.scheduled == nil && a.expires == nil && a.backoffs == nil && a.tags == nil && a.metadata == nil &&
		a.locks == nil && a.rates == nil && a.modes == nil && a.failures == nil
}

func arraysOf(jobs []NewJob) *arrays {
	n := len(jobs)
	a := &arrays{
		ids: make([][16]byte, n), kinds: make([]string, n), queues: make([]string, n), payloads: make([]string, n),
		priorities: make([]int16, n), maxAttempts: make([]int32, n),
	}
	for i := range jobs {
		j := &jobs[i]
		a.ids[i], a.kinds[i], a.queues[i], a.payloads[i] = j.ID, j.Kind, j.Queue, string(j.Payload)
		a.priorities[i], a.maxAttempts[i] = int16(j.Priority), int32(j.MaxAttempts)
		put(&a.delays, n, i, millis(j.Delay))
		put(&a.scheduled, n, i, instant(j.ScheduledAt))
		put(&a.expires, n, i, millis(j.ExpiresIn))
		put(&a.timeouts, n, i, timeoutMillis(j.Timeout))
		put(&a.backoffs, n, i, text(j.Backoff))
		put(&a.tags, n, i, tagsText(j.Tags))
		put(&a.metadata, n, i, metadataText(j.Metadata))
		put(&a.traces, n, i, text(j.Trace))
		put(&a.modes, n, i, modeNumber(j.Mode))
		if !j.Parent.IsZero() {
			put(&a.parents, n, i, (*[16]byte)(&j.Parent))
		}
		locks, limits, rates := keyTexts(j.Keys)
		put(&a.locks, n, i, locks)
		put(&a.limits, n, i, limits)
		put(&a.rates, n, i, rates)
		put(&a.failures, n, i, text(j.OnDiscard))
	}
	return a
}

// put sets column[i] to v, and makes the column when its first value comes.
func put[T any](column *[]*T, n, i int, v *T) {
	if v == nil {
		return
	}
	if *column == nil {
		*column = make([]*T, n)
	}
	(*column)[i] = v
}

func modeNumber(m job.Mode) *int16 {
	if m == job.Inline {
		return nil
	}
	n := int16(m)
	return &n
}

// millis rounds up: a delay is never cut short.
func millis(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return &ms
}

func timeoutMillis(d time.Duration) *int64 {
	if d == job.NoTimeout {
		none := int64(-1)
		return &none
	}
	return millis(d)
}

// instant cuts what lies before any job could have been due: it means "now", and Postgres cannot hold all of it. It rounds
// up to what Postgres keeps, so that no job is early and both ways of sending it agree.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	if first := time.Unix(0, 0); t.Before(first) {
		t = first
	}
	t = t.Add(time.Microsecond - 1).Truncate(time.Microsecond)
	return &t
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func tagsText(tags []string) *string {
	if len(tags) == 0 {
		return nil
	}
	return jsonText(tags)
}

func metadataText(m map[string]string) *string {
	if len(m) == 0 {
		return nil
	}
	return jsonText(m)
}

// keyTexts returns a job's keys as the columns of that name, each as the text of an array; nil for NULL.
func keyTexts(keys []job.Key) (locks, limits, rates *string) {
	if len(keys) == 0 {
		return nil, nil, nil
	}
	names, numbers, starts := job.SplitKeys(keys)
	if numbers != nil {
		limits = text(strings.NewReplacer("[", "{", "]", "}", " ", ",").Replace(fmt.Sprint(numbers)))
	}
	return arrayText(names), limits, arrayText(starts)
}

// arrayText writes an array as Postgres reads it; nil for NULL.
func arrayText(items []string) *string {
	if len(items) == 0 {
		return nil
	}
	var b strings.Builder
	for i, item := range items {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteByte('"')
		for _, c := range []byte(item) {
			if c == '"' || c == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
		b.WriteByte('"')
	}
	return text(b.String() + "}")
}

// jsonText encodes strings as they are: Marshal would write < > & as six bytes each.
func jsonText(v any) *string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // strings always encode
	return text(strings.TrimSpace(b.String()))
}
