-- release: give back running jobs that did not run to an end; the attempt is not counted. $1 session; $2 ids, sorted,
-- $3 fences, $4 wait in ms before they may be claimed (a handler may still be running), $5 for how long after that they
-- keep their locks (0: they go at once). Fenced and planned as finish.
-- A fresh ready_at, so that no dispatcher's cursor has passed it. One that somebody asked to cancel, or whose unique key a newer one has, is left alone:
-- bury it, or the next to claim it would start it once more. (Not here: a second pass would lock out of order.)
-- lingerKept: where a handler may still run its locks stay, under the new fence, until somebody has had the time to claim it
-- again; they outlive the session. Where none does they are its reservation, so that it keeps its place in line. Without $5
-- they go, by the old fence.
-- Returns the ids, when each is due and the locks that are free now.
CREATE FUNCTION weir.release_v1(p_session uuid, p_ids uuid[], p_fences int[], p_wait_ms bigint, p_linger_ms bigint)
RETURNS TABLE (job_id uuid, due timestamptz, freed text[])
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
    SET state = 0, session = NULL, claimed_at = NULL, fence = l.fence + 1, attempt = l.attempt - 1,
      ready_at = clock_timestamp() + p_wait_ms * interval '1 ms', flags = l.flags & ~8::smallint
    FROM unnest(p_ids, p_fences) AS i (id, fence)
    WHERE l.id = ANY (ARRAY[i.id]) AND l.fence = i.fence AND l.session IS NOT DISTINCT FROM p_session AND l.flags & 20 = 0
    RETURNING l.id, l.ready_at, l.keys, i.fence
  ), kept AS (
    UPDATE weir.locks AS k SET fence = b.fence + 1, until = b.ready_at + p_linger_ms * interval '1 ms'
    FROM back AS b
    WHERE p_linger_ms > 0 AND b.keys IS NOT NULL AND k.job_id = ANY (ARRAY[b.id]) AND k.fence = b.fence
  ), unlocked AS (
    DELETE FROM weir.locks AS k USING back AS b
    WHERE p_linger_ms <= 0 AND b.keys IS NOT NULL AND k.job_id = ANY (ARRAY[b.id]) AND k.fence = b.fence
  )
  SELECT b.id, b.ready_at, CASE WHEN p_linger_ms <= 0 THEN b.keys END FROM back AS b;
END
$$;
