-- tidy_orphans: lock rows without the claim that they stand for: the job is gone, or has another fence, or does not run although
-- the row has no end. $1 at most so many. Found in one statement and deleted in the next by exactly what was seen (rule G):
-- an admission, a hand-over or a release under way changes the fence. SKIP LOCKED. Reads all of locks, which has as many rows
-- as jobs with keys run. Also places in lines whose job is not blocked, and rates that are open again.
-- Returns how many lock rows, and the locks to pass on.
CREATE FUNCTION weir.tidy_orphans_v1(p_limit int, OUT rows int, OUT keys text[])
LANGUAGE plpgsql VOLATILE
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  v_keys text[]; v_slots int[]; v_jobs uuid[]; v_fences int[]; v_at timestamptz[];
BEGIN
  SELECT array_agg(x.key), array_agg(x.slot), array_agg(x.job_id), array_agg(x.fence) FROM (
    SELECT k.key, k.slot, k.job_id, k.fence FROM weir.locks AS k LEFT JOIN weir.live AS l ON l.id = k.job_id
    WHERE l.id IS NULL OR l.fence <> k.fence OR (k.until IS NULL AND l.state <> 1)
    LIMIT p_limit) AS x
  INTO v_keys, v_slots, v_jobs, v_fences;
  WITH had AS (
    SELECT k.key, k.slot, k.job_id, k.fence
    FROM unnest(v_keys, v_slots, v_jobs, v_fences) AS i (key, slot, job_id, fence)
      JOIN weir.locks AS k ON k.key = i.key AND k.slot = i.slot AND k.job_id = i.job_id AND k.fence = i.fence
    ORDER BY k.key, k.slot FOR UPDATE OF k SKIP LOCKED
  ), gone AS (
    DELETE FROM weir.locks AS k USING had AS h
    WHERE k.key = h.key AND k.slot = h.slot AND k.job_id = h.job_id AND k.fence = h.fence
    RETURNING k.key
  )
  SELECT count(*), coalesce(array_agg(DISTINCT g.key), '{}') FROM gone AS g INTO rows, keys;
  SELECT array_agg(x.key), array_agg(x.line_at), array_agg(x.job_id) FROM (
    SELECT w.key, w.line_at, w.job_id FROM weir.waits AS w LEFT JOIN weir.live AS l ON l.id = w.job_id
    WHERE l.id IS NULL OR l.state <> 2
    LIMIT p_limit) AS x
  INTO v_keys, v_at, v_jobs;
  IF v_keys IS NOT NULL THEN
    DELETE FROM weir.waits AS w USING unnest(v_keys, v_at, v_jobs) AS i (key, line_at, job_id)
    WHERE w.key = i.key AND w.line_at = i.line_at AND w.job_id = i.job_id
      AND NOT EXISTS (SELECT FROM weir.live AS l WHERE l.id = i.job_id AND l.state = 2);
  END IF;
  DELETE FROM weir.rate_holds AS h
  WHERE h.key IN (SELECT x.key FROM weir.rate_holds AS x WHERE x.until < statement_timestamp() LIMIT p_limit FOR UPDATE SKIP LOCKED);
END
$$;
