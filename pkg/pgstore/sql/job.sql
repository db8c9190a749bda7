-- job: one job as it stands. $1 id. No locks; the primary keys, one partition of the log.
SELECT s.id, s.kind, s.queue, s.priority, s.state, s.attempt, s.max_attempts, s.crashes, s.fence, s.session, s.ready_at,
  s.claimed_at, s.finished_at, s.expires_at, s.result, s.error, s.enqueued_at, s.scheduled_at, s.payload, s.timeout_ms,
  s.backoff, s.tags, s.metadata, s.trace, s.parent_id, s.keys, s.key_limits, s.rates, s.mode
FROM weir.job_status AS s
WHERE s.id = $1
