-- release: give back running jobs that did not run to an end; the attempt is not counted. $1 session; $2 ids, sorted,
-- $3 fences, $4 wait in ms before they may be claimed (a handler may still be running). Fenced and planned as finish.
-- A fresh ready_at, so that no dispatcher's cursor has passed it. One that somebody asked to cancel is left alone:
-- bury it, or the next to claim it would start it once more. (Not here: a second pass would lock out of order.) Returns the
-- ids and when each is due.
CREATE FUNCTION weir.release_v1(p_session uuid, p_ids uuid[], p_fences int[], p_wait_ms bigint)
RETURNS TABLE (job_id uuid, due timestamptz)
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
  UPDATE weir.live AS l
  SET state = 0, session = NULL, claimed_at = NULL, fence = l.fence + 1, attempt = l.attempt - 1,
    ready_at = clock_timestamp() + p_wait_ms * interval '1 ms', flags = l.flags & ~8::smallint
  FROM unnest(p_ids, p_fences) AS i (id, fence)
  WHERE l.id = ANY (ARRAY[i.id]) AND l.fence = i.fence AND l.session IS NOT DISTINCT FROM p_session AND l.flags & 4 = 0
  RETURNING l.id, l.ready_at;
END
$$;
