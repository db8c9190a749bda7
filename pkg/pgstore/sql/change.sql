-- change: by hand, when waiting jobs start. $1 ids, sorted; $2 the instant at which they are due, $3 or in how many ms from now (both
-- NULL: as they are); $4 their priority (NULL: as it is). One that runs is left alone.
-- A job that gets another time leaves the line of its locks, and what was reserved for it is given up: it stands behind those who
-- wait by then. Its expiry moves along. One that gets another priority keeps its place in the line, but has a fresh
-- ready_at if it is due: it enters a range that dispatchers' cursors may have passed.
-- Locks the live rows in the order of ids, all of them before any lock row. Returns each id that was changed, when it is due, and
-- the locks that it had or waited for and does not any more.
CREATE FUNCTION weir.change_v1(p_ids uuid[], p_at timestamptz, p_delay_ms bigint, p_priority smallint)
RETURNS TABLE (job_id uuid, job_queue text, job_kind text, due timestamptz, freed text[])
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
  v_moves boolean := p_at IS NOT NULL OR p_delay_ms IS NOT NULL;
  v_ids uuid[]; v_fences int[];
BEGIN
  SELECT array_agg(x.id), array_agg(x.fence)
  FROM (SELECT l.id, l.fence FROM weir.live AS l WHERE l.id = ANY (p_ids) AND l.state <> 1 ORDER BY l.id FOR UPDATE) AS x
  INTO v_ids, v_fences;
  IF v_ids IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY
  WITH changed AS (
    UPDATE weir.live AS l
    SET fence = l.fence + 1, priority = coalesce(p_priority, l.priority), ready_at = n.at,
      expires_at = l.expires_at + CASE WHEN v_moves THEN n.at - l.ready_at ELSE interval '0' END,
      state = CASE WHEN v_moves THEN 0 ELSE l.state END, blocked_on = CASE WHEN NOT v_moves THEN l.blocked_on END,
      line_at = CASE WHEN v_moves AND l.keys IS NOT NULL THEN n.at ELSE l.line_at END
    FROM unnest(v_ids) AS i (id), LATERAL (
      SELECT CASE WHEN v_moves THEN greatest(p_at, clock_timestamp() + coalesce(p_delay_ms, 0) * interval '1 ms')
        ELSE greatest(x.ready_at, clock_timestamp()) END AS at
      FROM weir.live AS x WHERE x.id = i.id) AS n
    WHERE l.id = ANY (ARRAY[i.id])
    RETURNING l.id, l.queue, l.kind, l.ready_at, l.keys
  ), left_line AS (
    DELETE FROM weir.waits AS w USING changed AS c WHERE v_moves AND c.keys IS NOT NULL AND w.job_id = c.id
  ), unlocked AS (
    DELETE FROM weir.locks AS k USING changed AS c WHERE v_moves AND c.keys IS NOT NULL AND k.job_id = ANY (ARRAY[c.id])
  ), kept AS (
    UPDATE weir.locks AS k SET fence = f.fence + 1
    FROM unnest(v_ids, v_fences) AS f (id, fence)
    WHERE NOT v_moves AND k.job_id = ANY (ARRAY[f.id]) AND k.fence = f.fence
  )
  SELECT c.id, c.queue, c.kind, c.ready_at, CASE WHEN v_moves THEN c.keys END FROM changed AS c;
END
$$;
