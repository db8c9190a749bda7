-- tidy_reservations: jobs whose reservation has run out, or who lingered for long enough, lose all their lock rows (resvAll).
-- $1 at most so many jobs. Found by the lock rows, acted on in the next statement, when the live rows are had: SKIP LOCKED, one
-- that is being admitted at this moment keeps them. Index locks_until.
-- Whoever was next and is due goes back to its place in the line, in the same transaction (backInLine): available, it would not
-- be seen by the pass that follows, which would give its place to the one behind it. Not one that asks for a mode: if nobody accepts that, it would hold the line for ever.
-- Returns how many jobs, and the locks to pass on.
CREATE FUNCTION weir.tidy_reservations_v1(p_limit int, OUT jobs int, OUT keys text[])
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
  v_ids uuid[];
BEGIN
  v_ids := ARRAY(SELECT k.job_id FROM weir.locks AS k WHERE k.until < statement_timestamp() ORDER BY k.until LIMIT p_limit);
  v_ids := ARRAY(
    SELECT l.id FROM unnest(v_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
    WHERE l.state + 0 <> 1 FOR UPDATE OF l SKIP LOCKED);
  WITH over AS (
    SELECT DISTINCT k.job_id FROM unnest(v_ids) AS i (id) JOIN weir.locks AS k ON k.job_id = ANY (ARRAY[i.id])
    WHERE k.until < statement_timestamp()
  ), gone AS (
    DELETE FROM weir.locks AS k USING over AS o WHERE k.job_id = ANY (ARRAY[o.job_id]) RETURNING k.job_id, k.key
  )
  SELECT coalesce(array_agg(DISTINCT g.job_id), '{}'), coalesce(array_agg(DISTINCT g.key), '{}') FROM gone AS g INTO v_ids, keys;
  jobs := cardinality(v_ids);
  WITH back AS (
    UPDATE weir.live AS l SET state = 2, blocked_on = l.keys[1]
    FROM unnest(v_ids) AS i (id)
    WHERE l.id = ANY (ARRAY[i.id]) AND l.state + 0 = 0 AND l.ready_at <= statement_timestamp() AND l.mode = 0
    RETURNING l.id, l.line_at, l.keys
  )
  INSERT INTO weir.waits (key, line_at, job_id)
  SELECT u.key, b.line_at, b.id FROM back AS b CROSS JOIN LATERAL unnest(b.keys[2:]) AS u (key)
  ORDER BY 1, 2, 3
  ON CONFLICT DO NOTHING;
END
$$;
