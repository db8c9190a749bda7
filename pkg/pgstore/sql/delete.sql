-- delete: forget jobs that are not running, in every table. $1 ids, sorted. Returns the ids of which something was
-- there; a running one is left alone and not returned.
CREATE FUNCTION weir.delete_v1(p_ids uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
  v_ids uuid[];
BEGIN
  -- Lock first: a claim that commits before this lock makes the job running, and then it stays.
  PERFORM FROM weir.live AS l WHERE l.id = ANY (p_ids) ORDER BY l.id FOR UPDATE;
  SELECT array_agg(i.id) FROM unnest(p_ids) AS i (id)
  WHERE NOT EXISTS (SELECT FROM weir.live AS l WHERE l.id = i.id AND l.state = 1)
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
END
$$;
