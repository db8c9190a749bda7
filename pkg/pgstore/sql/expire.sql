-- expire: unstarted jobs whose time has passed end as expired. $1 at most so many. Index live_expiring.
-- Locks SKIP LOCKED: a job that is being claimed at this moment was in time. Returns a row a job.
CREATE FUNCTION weir.expire_v1(p_limit int) RETURNS TABLE (job_id uuid, job_kind text, job_queue text)
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
  v_ids uuid[]; v_fences int[];
BEGIN
  SELECT array_agg(x.id ORDER BY x.id), array_agg(x.fence ORDER BY x.id) FROM (
    SELECT l.id, l.fence FROM weir.live AS l
    WHERE l.expires_at < statement_timestamp() AND l.state <> 1
    ORDER BY l.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED) AS x
  INTO v_ids, v_fences;
  IF v_ids IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY
  SELECT d.id, d.kind, d.queue
  FROM weir.bury_v1(NULL, v_ids, v_fences, array_fill(3::smallint, ARRAY[cardinality(v_ids)]), NULL, NULL,
    array_fill('expired before it could start'::text, ARRAY[cardinality(v_ids)]), NULL, NULL) AS b (id)
  JOIN weir.dead AS d ON d.id = b.id AND d.finished_at >= statement_timestamp();
END
$$;
