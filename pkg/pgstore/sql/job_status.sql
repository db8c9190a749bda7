-- job_status: one row a job, its state in words. Live jobs join the log; the rest stand alone.
CREATE VIEW weir.job_status AS
SELECT l.id, l.kind, l.queue, l.priority,
  CASE WHEN l.state = 1 THEN 'running' WHEN l.state = 2 THEN 'blocked'
    WHEN l.ready_at <= statement_timestamp() THEN 'available'
    WHEN l.attempt > 0 THEN 'retrying' ELSE 'scheduled' END AS state,
  l.attempt, l.max_attempts, l.crashes, l.fence, l.session, l.ready_at, l.claimed_at, NULL::timestamptz AS finished_at,
  l.expires_at, l.flags, NULL::json AS result, NULL::text AS error,
  coalesce(j.enqueued_at, k.enqueued_at) AS enqueued_at, coalesce(j.scheduled_at, k.scheduled_at) AS scheduled_at,
  coalesce(j.payload, k.payload) AS payload, coalesce(j.timeout_ms, k.timeout_ms) AS timeout_ms,
  coalesce(j.backoff, k.backoff) AS backoff, coalesce(j.tags, k.tags) AS tags, coalesce(j.metadata, k.metadata) AS metadata,
  coalesce(j.trace, k.trace) AS trace, coalesce(j.parent_id, k.parent_id) AS parent_id, l.keys, l.key_limits, l.rates, l.blocked_on, l.mode
FROM weir.live AS l LEFT JOIN weir.jobs AS j ON j.id = l.id LEFT JOIN weir.jobs_kept AS k ON k.id = l.id
UNION ALL
SELECT o.id, coalesce(j.kind, k.kind, ''), o.queue, coalesce(j.priority, k.priority, 5::smallint), 'completed', o.attempt,
  coalesce(j.max_attempts, k.max_attempts, o.attempt), 0::smallint, o.fence, o.session, NULL, o.claimed_at, o.finished_at,
  coalesce(j.expires_at, k.expires_at), 0::smallint, o.result, NULL,
  coalesce(j.enqueued_at, k.enqueued_at), coalesce(j.scheduled_at, k.scheduled_at),
  coalesce(j.payload, k.payload), coalesce(j.timeout_ms, k.timeout_ms), coalesce(j.backoff, k.backoff),
  coalesce(j.tags, k.tags), coalesce(j.metadata, k.metadata), coalesce(j.trace, k.trace), coalesce(j.parent_id, k.parent_id),
  coalesce(j.keys, k.keys), coalesce(j.key_limits, k.key_limits), coalesce(j.rates, k.rates), NULL,
  coalesce(j.mode, k.mode, 0::smallint)
FROM weir.outcomes AS o LEFT JOIN weir.jobs AS j ON j.id = o.id LEFT JOIN weir.jobs_kept AS k ON k.id = o.id
UNION ALL
SELECT d.id, d.kind, d.queue, d.priority,
  CASE d.state WHEN 1 THEN 'discarded' WHEN 2 THEN 'cancelled' ELSE 'expired' END, d.attempt, d.max_attempts, d.crashes,
  d.fence, d.session, NULL, d.claimed_at, d.finished_at, d.expires_at, 0::smallint, NULL, d.error,
  d.enqueued_at, d.scheduled_at, d.payload, d.timeout_ms, d.backoff, d.tags, d.metadata, d.trace, d.parent_id,
  d.keys, d.key_limits, d.rates, NULL, d.mode
FROM weir.dead AS d;
