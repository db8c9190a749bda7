-- cancel: $1 ids, sorted. One that is not running ends as cancelled at once; a running one is asked to stop, and ends as
-- its handler says, or as cancelled when that fails. Whoever commits first decides: finish, cancel or timeout.
-- Locks the live rows in the order of ids, all of them before any lock row: who waits for a lock row may hold live rows.
-- Returns each id found live: the session that must be told, NULL if it ended, and then the locks that it had or waited for.
CREATE FUNCTION weir.cancel_v1(p_ids uuid[], p_reason text) RETURNS TABLE (job_id uuid, asked uuid, freed text[])
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
  v_run uuid[]; v_ids uuid[]; v_fences int[];
BEGIN
  SELECT array_agg(x.id) FILTER (WHERE x.state = 1), array_agg(x.id) FILTER (WHERE x.state <> 1),
    array_agg(x.fence) FILTER (WHERE x.state <> 1)
  FROM (SELECT l.id, l.fence, l.state FROM weir.live AS l WHERE l.id = ANY (p_ids) ORDER BY l.id FOR UPDATE) AS x
  INTO v_run, v_ids, v_fences;
  IF v_run IS NOT NULL THEN
    RETURN QUERY UPDATE weir.live AS l SET flags = l.flags | 4::smallint WHERE l.id = ANY (v_run) RETURNING l.id, l.session, NULL::text[];
  END IF;
  IF v_ids IS NOT NULL THEN
    RETURN QUERY SELECT b.job_id, NULL::uuid, b.freed
    FROM weir.bury_v1(NULL, v_ids, v_fences, array_fill(2::smallint, ARRAY[cardinality(v_ids)]), NULL, NULL,
      array_fill(p_reason, ARRAY[cardinality(v_ids)]), NULL, NULL) AS b;
  END IF;
END
$$;
