-- list_json: the jobs that a transaction sees, as one JSON text, oldest id first, so that any driver can read them.
-- $1 kind, '' for all; $2 queue, '' for all; $3 at most so many, the newest. No locks.
SELECT coalesce(json_agg(row_to_json(p) ORDER BY p.id), '[]'::json)::text
FROM (
  SELECT s.id, s.kind, s.queue, s.priority, s.state, s.attempt, s.max_attempts, s.fence, s.ready_at, s.expires_at,
    s.enqueued_at, s.scheduled_at, s.payload, s.timeout_ms, s.backoff, s.tags, s.metadata, s.trace, s.parent_id,
    s.keys, s.key_limits, s.rates, s.mode
  FROM weir.job_status AS s
  WHERE ($1::text = '' OR s.kind = $1::text)
    AND ($2::text = '' OR s.queue = $2::text)
  ORDER BY s.id DESC
  LIMIT $3::text::int
) AS p
