-- retry: attempts that ended without an outcome: failed with attempts left, or snoozed. $1 session; $2 ids, sorted,
-- $3 fences, $4 1 where the attempt is given back, $5 waits in ms, $6 how long each ran in ms, $7 what happened (as
-- in attempts.outcome; NULL: leaves no row there), $8 errors, $9 stacks, $10 rates that nobody starts a job with for so
-- long (NULL: none). A handler has returned: crashes starts anew.
-- A job that somebody asked to cancel, or whose unique key a newer one has taken over, is left alone: bury it. Fenced and planned as finish. Its locks go, by its fence
-- (lockDelFenced: those of a new claim stay), after all live rows were had: what a CTE writes that nobody reads comes last.
-- It goes to the end of their lines. Returns the ids, when each is due and the locks that are free now.
CREATE FUNCTION weir.retry_v1(
  p_session uuid, p_ids uuid[], p_fences int[], p_back int[], p_waits_ms bigint[], p_ran_ms bigint[],
  p_outcomes text[], p_errors text[], p_stacks text[], p_holds text[]
) RETURNS TABLE (job_id uuid, due timestamptz, freed text[])
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
      ready_at = clock_timestamp() + i.wait_ms * interval '1 ms',
      line_at = CASE WHEN l.keys IS NOT NULL THEN clock_timestamp() + i.wait_ms * interval '1 ms' END, flags = l.flags & ~8::smallint
    FROM unnest(p_ids, p_fences, p_back, p_waits_ms, p_ran_ms, p_outcomes, p_errors, p_stacks, p_holds)
      AS i (id, fence, back, wait_ms, ran_ms, outcome, error, stack, hold)
    WHERE l.id = ANY (ARRAY[i.id]) AND l.fence = i.fence AND l.session IS NOT DISTINCT FROM p_session AND l.flags & 20 = 0
    RETURNING l.id, l.ready_at, l.attempt + i.back AS attempt, l.keys, i.fence, i.ran_ms, i.outcome, i.error, i.stack, i.hold
  ), noted AS (
    INSERT INTO weir.attempts (ended_at, started_at, attempt, fence, job_id, session, outcome, error, stack)
    SELECT clock_timestamp(), clock_timestamp() - b.ran_ms * interval '1 ms', b.attempt, b.fence, b.id, p_session,
      b.outcome, b.error, b.stack
    FROM back AS b WHERE b.outcome IS NOT NULL
  ), unlocked AS (
    DELETE FROM weir.locks AS k USING back AS b
    WHERE b.keys IS NOT NULL AND k.job_id = ANY (ARRAY[b.id]) AND k.fence = b.fence
  ), closed AS (
    INSERT INTO weir.rate_holds AS h (key, until)
    SELECT b.hold, max(b.ready_at) FROM back AS b WHERE b.hold IS NOT NULL GROUP BY b.hold ORDER BY b.hold
    ON CONFLICT (key) DO UPDATE SET until = greatest(h.until, excluded.until)
  )
  SELECT b.id, b.ready_at, b.keys FROM back AS b;
END
$$;
