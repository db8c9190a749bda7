-- rotate_carry: copy log rows that are still wanted to jobs_kept, because their job is live or its outcome is there.
-- $1 id after which to look, $2 id up to which (exclusive), $3 at most so many. Found from the side of live and
-- outcomes, by their indexes on id: the log itself is not read. Copied, not moved: at every moment and for every
-- snapshot the row is in one of the two. Waits 50 ms at most for another's copy of the same row (SQLSTATE 55P03).
-- Returns the last id looked at, how many were looked at, and how many rows were copied.
CREATE FUNCTION weir.rotate_carry_v1(p_after uuid, p_to uuid, p_limit int)
RETURNS TABLE (last_id uuid, seen bigint, copied bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '50ms'
AS $$
BEGIN
  RETURN QUERY
  WITH wanted AS (
    SELECT x.id FROM (
      (SELECT l.id FROM weir.live AS l WHERE l.id > p_after AND l.id < p_to ORDER BY l.id LIMIT p_limit)
      UNION
      (SELECT o.id FROM weir.outcomes AS o WHERE o.id > p_after AND o.id < p_to ORDER BY o.id LIMIT p_limit)) AS x
    ORDER BY x.id LIMIT p_limit
  ), put AS (
    INSERT INTO weir.jobs_kept AS k (id, enqueued_at, scheduled_at, expires_at, timeout_ms, parent_id, max_attempts, priority,
      mode, kind, queue, payload, backoff, keys, tags, metadata, trace, failure_kind, key_limits, rates)
    SELECT j.id, j.enqueued_at, j.scheduled_at, j.expires_at, j.timeout_ms, j.parent_id, j.max_attempts, j.priority,
      j.mode, j.kind, j.queue, j.payload, j.backoff, j.keys, j.tags, j.metadata, j.trace, j.failure_kind,
      j.key_limits, j.rates
    FROM wanted AS w JOIN weir.jobs AS j ON j.id = w.id
    WHERE NOT EXISTS (SELECT FROM weir.jobs_kept AS x WHERE x.id = w.id)
    ORDER BY w.id
    ON CONFLICT (id) DO NOTHING
    RETURNING k.id
  )
  SELECT (SELECT w.id FROM wanted AS w ORDER BY w.id DESC LIMIT 1), (SELECT count(*) FROM wanted), (SELECT count(*) FROM put);
END
$$;
