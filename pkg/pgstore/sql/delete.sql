-- delete: forget jobs that are not running, in every table. $1 ids, sorted. Returns the ids of which something was
-- there; a running one is left alone and not returned. With each the locks that it had or waited for.
CREATE FUNCTION weir.delete_v1(p_ids uuid[]) RETURNS TABLE (job_id uuid, freed text[])
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off -- rows are locked in the order of the index, whoever deletes
AS $$
DECLARE
  v_live uuid[]; v_dead uuid[]; v_ids uuid[];
BEGIN
  -- Lock first, live before dead as revive does. A claim that commits before the lock on live makes the job running, and
  -- then it stays; so does a job that is revived before the lock on dead: it is live, and not ours.
  SELECT array_agg(x.id) FROM (SELECT l.id FROM weir.live AS l WHERE l.id = ANY (p_ids) ORDER BY l.id FOR UPDATE) AS x INTO v_live;
  SELECT array_agg(x.id) FROM (SELECT d.id FROM weir.dead AS d WHERE d.id = ANY (p_ids) ORDER BY d.id FOR UPDATE) AS x INTO v_dead;
  SELECT array_agg(i.id) FROM unnest(p_ids) AS i (id)
  WHERE NOT EXISTS (SELECT FROM weir.live AS l WHERE l.id = i.id AND (l.state = 1 OR l.id <> ALL (coalesce(v_live, '{}'))))
  INTO v_ids;
  RETURN QUERY
  WITH a AS (DELETE FROM weir.live AS x WHERE x.id = ANY (v_live) AND x.state <> 1 RETURNING x.id, x.keys, x.fence),
    -- Once more, and in the snapshot of these deletes: what was enqueued or has died since the locks keeps its log row.
    i AS MATERIALIZED (SELECT array_agg(n.id) AS ids FROM unnest(v_ids) AS n (id)
      WHERE NOT EXISTS (SELECT FROM weir.live AS l WHERE l.id = n.id AND l.id <> ALL (coalesce(v_live, '{}')))
        AND NOT EXISTS (SELECT FROM weir.dead AS d WHERE d.id = n.id AND d.id <> ALL (coalesce(v_dead, '{}')))),
    b AS (DELETE FROM weir.outcomes AS x WHERE x.id = ANY ((SELECT i.ids FROM i)::uuid[]) RETURNING x.id),
    c AS (DELETE FROM weir.dead AS x WHERE x.id = ANY (v_dead) AND x.id = ANY ((SELECT i.ids FROM i)::uuid[]) RETURNING x.id),
    d AS (DELETE FROM weir.jobs AS x WHERE x.id = ANY ((SELECT i.ids FROM i)::uuid[]) RETURNING x.id),
    e AS (DELETE FROM weir.jobs_kept AS x WHERE x.id = ANY ((SELECT i.ids FROM i)::uuid[]) RETURNING x.id),
    f AS (DELETE FROM weir.attempts AS x WHERE x.job_id = ANY ((SELECT i.ids FROM i)::uuid[])),
    g AS (DELETE FROM weir.uniques AS x WHERE x.job_id = ANY ((SELECT i.ids FROM i)::uuid[])),
    h AS (DELETE FROM weir.waits AS x WHERE x.job_id = ANY ((SELECT i.ids FROM i)::uuid[])),
    j AS (DELETE FROM weir.locks AS k USING a WHERE a.keys IS NOT NULL AND k.job_id = ANY (ARRAY[a.id]) AND k.fence = a.fence)
  SELECT u.id, a.keys
  FROM (SELECT id FROM a UNION SELECT id FROM b UNION SELECT id FROM c UNION SELECT id FROM d UNION SELECT id FROM e) AS u
    LEFT JOIN a ON a.id = u.id;
  -- Died and revived since the locks: hardly ever, and better refused than left without its log row.
  IF EXISTS (SELECT FROM weir.live AS l WHERE l.id = ANY (v_ids) AND NOT EXISTS (SELECT FROM weir.log_row(l.id))) THEN
    RAISE EXCEPTION 'jobs came back while they were deleted' USING ERRCODE = '40001';
  END IF;
END
$$;
