package pgstore

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirq/weir/pkg/job"
)

// claimRow is one row of claim's answer, in its columns' order.
type claimRow struct {
	id                      pgtype.UUID
	kind, queue             *string
	priority                *int16
	attempt, maxAttempts    *int32
	crashes                 *int16
	fence                   *int32
	ready, claimed, expires *time.Time
	missing                 pgtype.Bool
	payload                 []byte
	enqueued, scheduled     *time.Time
	timeout                 *int64
	backoff                 *string
	tags                    []string
	metadata                []byte
	trace                   *string
	parent                  pgtype.UUID
	now, next               *time.Time
	scans                   []int16
	snapshot, xid           *string
	held                    []pgtype.Timestamptz
}

func (r *claimRow) targets() []any {
	return []any{
		&r.id, &r.kind, &r.queue, &r.priority, &r.attempt, &r.maxAttempts, &r.crashes, &r.fence, &r.ready, &r.claimed,
		&r.expires, &r.missing, &r.payload, &r.enqueued, &r.scheduled, &r.timeout, &r.backoff, &r.tags, &r.metadata,
		&r.trace, &r.parent, &r.now, &r.next, &r.scans, &r.snapshot, &r.xid, &r.held,
	}
}

func (r *claimRow) job() job.Row {
	row := job.Row{
		ID: r.id.Bytes, Kind: *r.kind, Queue: *r.queue, Priority: int(*r.priority), State: job.Running,
		Attempt: int(*r.attempt), MaxAttempts: int(*r.maxAttempts), Crashes: int(*r.crashes), Fence: int(*r.fence),
		ReadyAt: *r.ready, ClaimedAt: *r.claimed, ExpiresAt: deref(r.expires),
	}
	r.log(&row)
	return row
}

// log adds what the log says.
func (r *claimRow) log(row *job.Row) {
	row.Payload = r.payload
	row.EnqueuedAt, row.ScheduledAt = deref(r.enqueued), deref(r.scheduled)
	row.Timeout = timeoutOf(r.timeout)
	row.Backoff, _ = job.ParseBackoff(deref(r.backoff)) // a row edited by hand: the handler's backoff then
	row.Tags = r.tags
	row.Metadata = job.DecodeMetadata(r.metadata)
	row.Trace = deref(r.trace)
	row.ParentID = r.parent.Bytes
}

func (r *claimRow) meta(out *Claimed) {
	out.Now, out.Next = deref(r.now), deref(r.next)
	out.Snapshot, out.XID = deref(r.snapshot), deref(r.xid)
	out.Scans = make([][Priorities]Scan, len(r.scans)/Priorities)
	for i, s := range r.scans {
		out.Scans[i/Priorities][i%Priorities] = Scan(s)
	}
	out.Held = make([][Priorities]time.Time, len(r.held)/Priorities)
	for i, t := range r.held {
		if t.Valid {
			out.Held[i/Priorities][i%Priorities] = t.Time
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
