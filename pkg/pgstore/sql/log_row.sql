-- log_row: the log's row of a job, wherever it is kept. Not SETOF weir.jobs: a later version may add a column to that.
CREATE FUNCTION weir.log_row(p_id uuid) RETURNS TABLE (
  id uuid, enqueued_at timestamptz, scheduled_at timestamptz, expires_at timestamptz, timeout_ms bigint, parent_id uuid,
  max_attempts int, priority smallint, mode smallint, kind varchar, queue varchar, payload json, backoff varchar, keys text[],
  tags text[], metadata json, trace varchar, failure_kind varchar, key_limits int[], rates text[]
)
LANGUAGE sql STABLE ROWS 1 AS $$
  SELECT j.id, j.enqueued_at, j.scheduled_at, j.expires_at, j.timeout_ms, j.parent_id, j.max_attempts, j.priority, j.mode,
    j.kind, j.queue, j.payload, j.backoff, j.keys, j.tags, j.metadata, j.trace, j.failure_kind, j.key_limits, j.rates
  FROM weir.jobs AS j WHERE j.id = p_id
  UNION ALL
  SELECT k.id, k.enqueued_at, k.scheduled_at, k.expires_at, k.timeout_ms, k.parent_id, k.max_attempts, k.priority, k.mode,
    k.kind, k.queue, k.payload, k.backoff, k.keys, k.tags, k.metadata, k.trace, k.failure_kind, k.key_limits, k.rates
  FROM weir.jobs_kept AS k WHERE k.id = p_id
  LIMIT 1
$$;
