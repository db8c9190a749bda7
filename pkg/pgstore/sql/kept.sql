-- kept: log rows of claimed jobs that are no longer in the log. $1 uuid[] ids. No locks; primary key of jobs_kept.
SELECT k.id, k.payload, k.enqueued_at, k.scheduled_at, k.timeout_ms, k.backoff, k.tags, k.metadata, k.trace, k.parent_id
FROM weir.jobs_kept AS k
WHERE k.id = ANY ($1::uuid[])
