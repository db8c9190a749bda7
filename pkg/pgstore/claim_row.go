package pgstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirq/weir/pkg/job"
)

// claimRow is one row of claim's answer, in its columns' order. Its fields are values with a NULL of their own: a claim of
// a thousand jobs scans 27,000 of them, and pointers would each be an allocation.
type claimRow struct {
	id                      pgtype.UUID
	kind, queue             pgtype.Text
	priority                pgtype.Int2
	attempt, maxAttempts    pgtype.Int4
	crashes                 pgtype.Int2
	fence                   pgtype.Int4
	ready, claimed, expires pgtype.Timestamptz
	missing                 pgtype.Bool
	payload                 []byte
	enqueued, scheduled     pgtype.Timestamptz
	timeout                 pgtype.Int8
	backoff                 pgtype.Text
	tags                    []*string // a NULL among them can only be written by hand
	metadata                []byte
	trace                   pgtype.Text
	parent                  pgtype.UUID
	now, next               pgtype.Timestamptz
	scans                   []int16
	snapshot, xid           pgtype.Text
	held                    []pgtype.Timestamptz
	contended, limited      pgtype.Bool
	mode                    pgtype.Int2
	keys                    []string
	limits                  []int32
}

// loggedColumns are the first of them, which tell of a job.
const loggedColumns = 21

func (r *claimRow) targets() []any {
	return []any{
		&r.id, &r.kind, &r.queue, &r.priority, &r.attempt, &r.maxAttempts, &r.crashes, &r.fence, &r.ready, &r.claimed,
		&r.expires, &r.missing, &r.payload, &r.enqueued, &r.scheduled, &r.timeout, &r.backoff, &r.tags, &r.metadata,
		&r.trace, &r.parent, &r.now, &r.next, &r.scans, &r.snapshot, &r.xid, &r.held, &r.contended,
		&r.limited, &r.mode, &r.keys, &r.limits,
	}
}

func (r *claimRow) job() job.Row {
	row := job.Row{
		ID: r.id.Bytes, Kind: r.kind.String, Queue: r.queue.String, Priority: int(r.priority.Int16), State: job.Running,
		Attempt: int(r.attempt.Int32), MaxAttempts: int(r.maxAttempts.Int32), Crashes: int(r.crashes.Int16),
		Fence: int(r.fence.Int32), ReadyAt: r.ready.Time, ClaimedAt: r.claimed.Time, ExpiresAt: r.expires.Time,
		Mode: job.Mode(r.mode.Int16), Keys: locksOf(r.keys, r.limits),
	}
	r.log(&row)
	return row
}

// candidate reads a row that was not claimed: what admit needs to know stands in columns that such a row has no use for.
func (r *claimRow) candidate() (Candidate, error) {
	c := Candidate{
		ID: r.id.Bytes, Fence: int(r.fence.Int32), Queue: r.queue.String, Kind: r.kind.String, Priority: int(r.priority.Int16),
		ReadyAt: r.ready.Time, Attempt: int(r.attempt.Int32), Crashes: int(r.crashes.Int16), Mode: job.Mode(r.mode.Int16),
		LineAt: r.enqueued.Time, Reserved: r.contended.Bool,
	}
	if len(r.tags) > 0 {
		c.Keys = make([]string, len(r.tags))
		for i, key := range r.tags {
			c.Keys[i] = deref(key)
		}
		limits, err := limitsOf(r.backoff, len(r.tags))
		if err != nil {
			return Candidate{}, err
		}
		c.Limits = limits
	}
	if r.payload == nil {
		return c, nil
	}
	var more struct {
		Rates []string   `json:"rates"`
		Hold  *time.Time `json:"hold"`
	}
	if err := json.Unmarshal(r.payload, &more); err != nil {
		return Candidate{}, fmt.Errorf("read candidate: %w", err)
	}
	c.Hold, c.Rates = deref(more.Hold), ratesOf(more.Rates)
	return c, nil
}

// limitsOf reads an array of integers as Postgres writes it; NULL, and what a row edited by hand lacks, is 1.
func limitsOf(text pgtype.Text, n int) ([]int32, error) {
	limits := make([]int32, n)
	for i := range limits {
		limits[i] = 1
	}
	if !text.Valid {
		return limits, nil
	}
	for i, field := range strings.Split(strings.Trim(text.String, "{}"), ",") {
		if i == n || field == "NULL" || field == "" {
			continue
		}
		v, err := strconv.ParseInt(field, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read candidate: limits %q: %w", text.String, err)
		}
		limits[i] = int32(v)
	}
	return limits, nil
}

// log adds what the log says.
func (r *claimRow) log(row *job.Row) {
	row.Payload = r.payload
	row.EnqueuedAt, row.ScheduledAt = r.enqueued.Time, r.scheduled.Time
	if r.timeout.Valid {
		row.Timeout = timeoutOf(&r.timeout.Int64)
	}
	if r.backoff.Valid {
		row.Backoff, _ = job.ParseBackoff(r.backoff.String) // a row edited by hand: the handler's backoff then
	}
	for _, tag := range r.tags {
		row.Tags = append(row.Tags, deref(tag))
	}
	row.Metadata = job.DecodeMetadata(r.metadata)
	row.Trace = r.trace.String
	row.ParentID = r.parent.Bytes
}

func (r *claimRow) meta(out *Claimed) {
	out.Now, out.Next = r.now.Time, r.next.Time
	out.Snapshot, out.XID = r.snapshot.String, r.xid.String
	out.Contended, out.Limited = r.contended.Bool, r.limited.Bool
	out.Scans = make([][Ranges]Scan, len(r.scans)/Ranges)
	for i, s := range r.scans {
		out.Scans[i/Ranges][i%Ranges] = Scan(s)
	}
	out.Held = make([][Ranges]time.Time, len(r.held)/Ranges)
	for i, t := range r.held {
		if t.Valid {
			out.Held[i/Ranges][i%Ranges] = t.Time
		}
	}
}

func timeoutOf(ms *int64) time.Duration {
	switch {
	case ms == nil:
		return 0
	case *ms < 0:
		return job.NoTimeout
	}
	return time.Duration(*ms) * time.Millisecond
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}
