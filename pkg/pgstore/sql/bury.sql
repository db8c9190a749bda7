-- bury: jobs that end otherwise than completed, whoever ends them. $1 the session that holds them, NULL for jobs that
-- are not running; $2 ids, sorted, $3 fences, $4 states (as in dead.state), $5 how long each ran in ms (NULL: no
-- attempt ended), $6 what happened to that attempt, $7 errors, $8 stacks, $9 1 where the attempt is given back.
-- Fenced and planned as finish. The log row is copied, so that dead stands alone. A unique key goes as in finish, and dead
-- tells it. Locks go as in retry, and its places in lines. Who is discarded gets its failure job (add_failure).
-- Returns the ids buried, and the locks that each had or waited for: whoever is next in those lines may start now (cancelPass);
-- and of a failure job its kind, and its id or why there is none.
CREATE FUNCTION weir.bury_v1(
  p_session uuid, p_ids uuid[], p_fences int[], p_states smallint[], p_ran_ms bigint[], p_outcomes text[],
  p_errors text[], p_stacks text[], p_back int[]
) RETURNS TABLE (job_id uuid, freed text[], failure_kind text, failure uuid, refused text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
  FOR job_id, freed, failure_kind IN
  WITH gone AS (
    DELETE FROM weir.live AS l
    USING unnest(p_ids, p_fences, p_states, p_ran_ms, p_outcomes, p_errors, p_stacks, p_back)
      AS i (id, fence, final, ran_ms, outcome, error, stack, back)
    WHERE l.id = ANY (ARRAY[i.id]) AND l.fence = i.fence AND l.session IS NOT DISTINCT FROM p_session
    RETURNING l.id, l.kind, l.queue, l.priority, l.mode, l.fence, l.attempt - coalesce(i.back, 0) AS attempt,
      l.attempt AS tried, l.max_attempts, l.crashes, l.claimed_at, l.ready_at, l.expires_at, l.keys, l.key_limits, l.rates, l.flags,
      i.final, i.ran_ms, i.outcome, i.error, i.stack
  ), unkeyed AS (
    DELETE FROM weir.uniques AS u USING gone AS g
    WHERE g.flags & 2 <> 0 AND u.job_id = ANY (ARRAY[g.id]) AND (u.until IS NULL OR u.until <= statement_timestamp())
  ), written AS (
    INSERT INTO weir.dead (finished_at, claimed_at, enqueued_at, scheduled_at, expires_at, timeout_ms, fence, attempt,
      max_attempts, priority, state, mode, crashes, id, session, parent_id, kind, queue, payload, backoff, keys, key_limits,
      rates, tags, metadata, trace, failure_kind, unique_key, error)
    SELECT clock_timestamp(), g.claimed_at, coalesce(j.enqueued_at, g.ready_at), j.scheduled_at, g.expires_at,
      j.timeout_ms, g.fence, g.attempt, g.max_attempts, g.priority, g.final, g.mode, g.crashes, g.id, p_session,
      j.parent_id, g.kind, g.queue, j.payload, j.backoff, g.keys, g.key_limits, g.rates, j.tags, j.metadata, j.trace, j.failure_kind,
      CASE WHEN g.flags & 2 <> 0 THEN (SELECT u.key FROM weir.uniques AS u WHERE u.job_id = g.id) END,
      CASE WHEN g.flags & 20 = 16 AND g.final = 2 THEN concat_ws('; ', 'superseded: its unique key went to a newer job', g.error) ELSE g.error END
    FROM gone AS g LEFT JOIN LATERAL weir.log_row(g.id) AS j ON true
    RETURNING id, keys, state, failure_kind
  ), noted AS (
    INSERT INTO weir.attempts (ended_at, started_at, attempt, fence, job_id, session, outcome, error, stack)
    SELECT clock_timestamp(), clock_timestamp() - g.ran_ms * interval '1 ms', g.tried, g.fence, g.id, p_session,
      g.outcome, g.error, g.stack
    FROM gone AS g WHERE g.ran_ms IS NOT NULL
  ), unlocked AS (
    DELETE FROM weir.locks AS k USING gone AS g
    WHERE g.keys IS NOT NULL AND k.job_id = ANY (ARRAY[g.id]) AND k.fence = g.fence
  ), left_lines AS (
    DELETE FROM weir.waits AS w USING gone AS g
    WHERE cardinality(g.keys) > 1 AND w.job_id = ANY (ARRAY[g.id])
  )
  SELECT w.id, w.keys, CASE WHEN w.state = 1 THEN w.failure_kind END FROM written AS w
  LOOP
    failure := NULL; refused := NULL;
    IF failure_kind IS NOT NULL THEN
      SELECT f.failure, f.refused FROM weir.add_failure_v1(job_id, failure_kind) AS f INTO failure, refused;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
