-- retry: attempts that ended without an outcome: failed with attempts left, or snoozed. $1 session; $2 ids, sorted,
-- $3 fences, $4 1 where the attempt is given back, $5 waits in ms, $6 how long each ran in ms, $7 what happened (as
-- in attempts.outcome; NULL: leaves no row there), $8 errors, $9 stacks. A handler has returned: crashes starts anew.
-- A job that somebody asked to cancel is left alone: bury it. Fenced and planned as finish. Returns the ids and when each is due.
CREATE FUNCTION weir.retry_v1(
  p_session uuid, p_ids uuid[], p_fences int[], p_back int[], p_waits_ms bigint[], p_ran_ms bigint[],
  p_outcomes text[], p_errors text[], p_stacks text[]
) RETURNS TABLE (job_id uuid, due timestamptz)
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
  WITH back AS (
    UPDATE weir.live AS l
    SET state = 0, session = NULL, claimed_at = NULL, fence = l.fence + 1, attempt = l.attempt - i.back, crashes = 0,
      ready_at = clock_timestamp() + i.wait_ms * interval '1 ms', flags = l.flags & ~8::smallint
    FROM unnest(p_ids, p_fences, p_back, p_waits_ms, p_ran_ms, p_outcomes, p_errors, p_stacks)
      AS i (id, fence, back, wait_ms, ran_ms, outcome, error, stack)
    WHERE l.id = ANY (ARRAY[i.id]) AND l.fence = i.fence AND l.session IS NOT DISTINCT FROM p_session AND l.flags & 4 = 0
    RETURNING l.id, l.ready_at, l.attempt + i.back AS attempt, i.fence, i.ran_ms, i.outcome, i.error, i.stack
  ), noted AS (
    INSERT INTO weir.attempts (ended_at, started_at, attempt, fence, job_id, session, outcome, error, stack)
    SELECT clock_timestamp(), clock_timestamp() - b.ran_ms * interval '1 ms', b.attempt, b.fence, b.id, p_session,
      b.outcome, b.error, b.stack
    FROM back AS b WHERE b.outcome IS NOT NULL
  )
  SELECT b.id, b.ready_at FROM back AS b;
END
$$;
