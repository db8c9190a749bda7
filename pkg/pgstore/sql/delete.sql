-- delete: forget jobs that are not running, in every table. $1 ids, sorted. Returns the ids of which something was
-- there; a running one is left alone and not returned.
CREATE FUNCTION weir.delete_v1(p_ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off -- rows are locked in the order of the index, whoever deletes
AS $$
DECLARE
  v_locked uuid[]; v_ids uuid[];
BEGIN
  -- Lock first, live before dead as revive does. A claim that commits before the lock on live makes the job running, and
  -- then it stays; so does a job that is revived before the lock on dead: it is live, and not ours.
  SELECT array_agg(x.id) FROM (SELECT l.id FROM weir.live AS l WHERE l.id = ANY (p_ids) ORDER BY l.id FOR UPDATE) AS x INTO v_locked;
  PERFORM FROM weir.dead AS d WHERE d.id = ANY (p_ids) ORDER BY d.id FOR UPDATE;
  SELECT array_agg(i.id) FROM unnest(p_ids) AS i (id)
  WHERE NOT EXISTS (SELECT FROM weir.live AS l WHERE l.id = i.id AND (l.state = 1 OR l.id <> ALL (coalesce(v_locked, '{}'))))
  INTO v_ids;
  RETURN QUERY
  WITH a AS (DELETE FROM weir.live AS x WHERE x.id = ANY (v_ids) AND x.state <> 1 RETURNING x.id),
    b AS (DELETE FROM weir.outcomes AS x WHERE x.id = ANY (v_ids) RETURNING x.id),
    c AS (DELETE FROM weir.dead AS x WHERE x.id = ANY (v_ids) RETURNING x.id),
    d AS (DELETE FROM weir.jobs AS x WHERE x.id = ANY (v_ids) RETURNING x.id),
    e AS (DELETE FROM weir.jobs_kept AS x WHERE x.id = ANY (v_ids) RETURNING x.id),
    f AS (DELETE FROM weir.attempts AS x WHERE x.job_id = ANY (v_ids)),
    g AS (DELETE FROM weir.uniques AS x WHERE x.job_id = ANY (v_ids)),
    h AS (DELETE FROM weir.waits AS x WHERE x.job_id = ANY (v_ids))
  SELECT id FROM a UNION SELECT id FROM b UNION SELECT id FROM c UNION SELECT id FROM d UNION SELECT id FROM e;
  -- Revived and ended and revived again between the statements above: rare, and better refused than without its log row.
  IF EXISTS (SELECT FROM weir.live AS l WHERE l.id = ANY (v_ids) AND NOT EXISTS (SELECT FROM weir.log_row(l.id))) THEN
    RAISE EXCEPTION 'jobs were revived while they were deleted' USING ERRCODE = '40001';
  END IF;
END
$$;
