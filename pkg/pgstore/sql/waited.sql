-- waited: those of some locks for which somebody waits. $1 keys. Called after the commit of what freed them, so that of most keys
-- nothing more need be asked: whoever is blocked on one at this moment looks at it himself after his own commit.
-- No locks; indexes live_line, waits.
CREATE FUNCTION weir.waited_v1(p_keys text[]) RETURNS SETOF text
LANGUAGE plpgsql STABLE ROWS 10
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_material = off
SET enable_memoize = off
AS $$
BEGIN
  -- A scalar subquery: it cannot become a join.
  RETURN QUERY
  SELECT k FROM unnest(p_keys) AS k
  WHERE (SELECT l.state FROM weir.live AS l WHERE l.state = 2 AND l.keys[1] = k LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM weir.waits AS w WHERE w.key = k LIMIT 1) IS NOT NULL;
END
$$;
