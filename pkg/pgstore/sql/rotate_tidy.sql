-- rotate_tidy: rows of jobs_kept go when their job is neither live, nor in outcomes, nor in dead. $1 id after which to
-- look, $2 most rows looked at. dead counts although it stands alone: each way between the three (finish, bury, revive)
-- is one commit, so one snapshot sees a job in exactly one of them; without dead a job that is being revived would
-- lose its payload. Locks SKIP LOCKED; rows of jobs_kept are never updated. Returns the last id, rows seen and deleted.
CREATE FUNCTION weir.rotate_tidy_v1(p_after uuid, p_limit int)
RETURNS TABLE (last_id uuid, seen bigint, gone bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
  RETURN QUERY
  WITH page AS (
    SELECT k.id FROM weir.jobs_kept AS k WHERE k.id > p_after ORDER BY k.id LIMIT p_limit
  ), over AS (
    SELECT k.id FROM page AS p JOIN weir.jobs_kept AS k ON k.id = p.id
    WHERE NOT EXISTS (SELECT FROM weir.live AS l WHERE l.id = p.id)
      AND NOT EXISTS (SELECT FROM weir.outcomes AS o WHERE o.id = p.id)
      AND NOT EXISTS (SELECT FROM weir.dead AS d WHERE d.id = p.id)
    FOR UPDATE OF k SKIP LOCKED
  ), deleted AS (
    DELETE FROM weir.jobs_kept AS k USING over AS x WHERE k.id = x.id RETURNING k.id
  )
  SELECT (SELECT p.id FROM page AS p ORDER BY p.id DESC LIMIT 1), (SELECT count(*) FROM page), (SELECT count(*) FROM deleted);
END
$$;
