-- cancel: $1 ids, sorted. One that is not running ends as cancelled at once; a running one is asked to stop, and ends as
-- its handler says, or as cancelled when that fails. Whoever commits first decides: finish, cancel or timeout.
-- Locks the live rows in the order of ids. Returns each id found live: the session that must be told, NULL if it ended.
CREATE FUNCTION weir.cancel_v1(p_ids uuid[], p_reason text) RETURNS TABLE (job_id uuid, asked uuid)
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
  r record;
BEGIN
  FOR r IN
    SELECT l.id, l.fence, l.state, l.session FROM weir.live AS l
    WHERE l.id = ANY (p_ids) ORDER BY l.id FOR UPDATE
  LOOP
    job_id := r.id; asked := r.session;
    IF r.state = 1 THEN
      UPDATE weir.live AS l SET flags = l.flags | 4::smallint WHERE l.id = r.id;
    ELSE
      PERFORM weir.bury_v1(NULL, ARRAY[r.id], ARRAY[r.fence], ARRAY[2::smallint], NULL, NULL, ARRAY[p_reason], NULL, NULL);
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
