-- finish: jobs that completed. $1 session; $2 ids, sorted, $3 their fences and $4 results (NULL: none has one), in step.
-- finishFence: only the current claim of this session deletes its live row; a stale one changes nothing at all.
-- The conditions leave the planner one way, whatever it believes of the table's size: the primary key, id by id. (An
-- equality on session or state would let it walk live_session; a plain join on id, the whole key in order.) That the job
-- runs follows from its session: only running jobs have one.
-- A unique key goes with the job (keyDies), unless its time is not over.
-- Locks the live rows in the order of ids. Returns the ids that were finished; an id that is missing was fenced off.
CREATE FUNCTION weir.finish_v1(p_session uuid, p_ids uuid[], p_fences int[], p_results text[]) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE ROWS 100
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
    USING unnest(p_ids, p_fences, p_results) AS i (id, fence, result)
    WHERE l.id = ANY (ARRAY[i.id]) AND l.fence = i.fence AND l.session IS NOT DISTINCT FROM p_session
    RETURNING l.id, l.queue, l.fence, l.attempt, l.claimed_at, l.flags, i.result
  ), written AS (
    INSERT INTO weir.outcomes (finished_at, claimed_at, fence, attempt, id, session, queue, result)
    SELECT clock_timestamp(), g.claimed_at, g.fence, g.attempt, g.id, p_session, g.queue, g.result::json
    FROM gone AS g
  ), unkeyed AS (
    DELETE FROM weir.uniques AS u USING gone AS g
    WHERE g.flags & 2 <> 0 AND u.job_id = ANY (ARRAY[g.id]) AND (u.until IS NULL OR u.until <= statement_timestamp())
  )
  SELECT g.id FROM gone AS g;
END
$$;
