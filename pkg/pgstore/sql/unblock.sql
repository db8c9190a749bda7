-- unblock: waiting jobs, locked by this transaction, have their locks. $1 session, $2 ids, $3 1: it runs here, 0: it is available,
-- with a fresh ready_at, since cursors have passed the old one, and keeps its place in line. It leaves all lines.
-- Returns rows of weir.keyed_v1: 1 jobs that run now, 7 reservations.
CREATE FUNCTION weir.unblock_v1(p_session uuid, p_ids uuid[], p_run int[]) RETURNS SETOF weir.keyed_v1
LANGUAGE plpgsql VOLATILE ROWS 10
AS $$
DECLARE
  r weir.keyed_v1;
BEGIN
  UPDATE weir.live AS l
  SET state = CASE WHEN i.run = 1 THEN 1 ELSE 0 END, session = CASE WHEN i.run = 1 THEN p_session END, attempt = l.attempt + i.run,
    fence = l.fence + i.run, claimed_at = CASE WHEN i.run = 1 THEN clock_timestamp() END, blocked_on = NULL,
    ready_at = CASE WHEN i.run = 1 THEN l.ready_at ELSE clock_timestamp() END
  FROM unnest(p_ids, p_run) AS i (id, run)
  WHERE l.id = ANY (ARRAY[i.id]);
  IF EXISTS (SELECT FROM weir.waits) THEN
    DELETE FROM weir.waits AS w USING unnest(p_ids) AS i (id) WHERE w.job_id = ANY (ARRAY[i.id]);
  END IF;
  IF 1 = ANY (p_run) THEN
    RETURN QUERY SELECT * FROM weir.taken_v1(ARRAY(SELECT i.id FROM unnest(p_ids, p_run) AS i (id, run) WHERE i.run = 1));
  END IF;
  r.what := 7;
  FOR r.id, r.kind, r.queue, r.ready_at IN
    SELECT l.id, l.kind, l.queue, l.ready_at
    FROM unnest(p_ids, p_run) AS i (id, run) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
    WHERE i.run = 0
  LOOP
    RETURN NEXT r;
  END LOOP;
END
$$;
