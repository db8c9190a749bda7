-- bury: jobs that end otherwise than completed, whoever ends them. $1 the session that holds them, NULL for jobs that
-- are not running; $2 ids, sorted, $3 fences, $4 states (as in dead.state), $5 how long each ran in ms (NULL: no
-- attempt ended), $6 what happened to that attempt, $7 errors, $8 stacks, $9 1 where the attempt is given back.
-- Fenced and planned as finish. The log row is copied, so that dead stands alone. Returns the ids buried.
CREATE FUNCTION weir.bury_v1(
  p_session uuid, p_ids uuid[], p_fences int[], p_states smallint[], p_ran_ms bigint[], p_outcomes text[],
  p_errors text[], p_stacks text[], p_back int[]
) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
  RETURN QUERY
  WITH gone AS (
    DELETE FROM weir.live AS l
    USING unnest(p_ids, p_fences, p_states, p_ran_ms, p_outcomes, p_errors, p_stacks, p_back)
      AS i (id, fence, final, ran_ms, outcome, error, stack, back)
    WHERE l.id = ANY (ARRAY[i.id]) AND l.fence = i.fence AND l.session IS NOT DISTINCT FROM p_session
    RETURNING l.id, l.kind, l.queue, l.priority, l.mode, l.fence, l.attempt - coalesce(i.back, 0) AS attempt,
      l.attempt AS tried, l.max_attempts, l.crashes, l.claimed_at, l.ready_at, l.expires_at, l.keys,
      i.final, i.ran_ms, i.outcome, i.error, i.stack
  ), written AS (
    INSERT INTO weir.dead (finished_at, claimed_at, enqueued_at, scheduled_at, expires_at, timeout_ms, fence, attempt,
      max_attempts, priority, state, mode, crashes, id, session, parent_id, kind, queue, payload, backoff, keys, tags,
      metadata, trace, failure_kind, error)
    SELECT clock_timestamp(), g.claimed_at, coalesce(j.enqueued_at, g.ready_at), j.scheduled_at, g.expires_at,
      j.timeout_ms, g.fence, g.attempt, g.max_attempts, g.priority, g.final, g.mode, g.crashes, g.id, p_session,
      j.parent_id, g.kind, g.queue, j.payload, j.backoff, g.keys, j.tags, j.metadata, j.trace, j.failure_kind, g.error
    FROM gone AS g LEFT JOIN LATERAL weir.log_row(g.id) AS j ON true
  ), noted AS (
    INSERT INTO weir.attempts (ended_at, started_at, attempt, fence, job_id, session, outcome, error, stack)
    SELECT clock_timestamp(), clock_timestamp() - g.ran_ms * interval '1 ms', g.tried, g.fence, g.id, p_session,
      g.outcome, g.error, g.stack
    FROM gone AS g WHERE g.ran_ms IS NOT NULL
  )
  SELECT g.id FROM gone AS g;
END
$$;
