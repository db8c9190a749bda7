-- block_line: a lock is busy for one of its line; whoever is due and waits for it alone, with the same number or a lower one, is
-- blocked as well. $1 key, $2 the number, $3 queues and $4 kinds served here; at most 1,000. In the order of the line, up to the
-- first that another has locked: it may be about to start. Who owns a lock row is not blocked; that is looked at in a new
-- statement, when the rows are had. One that asks for a mode is not either: it might be one that nobody accepts. Locks SKIP LOCKED; index live_next. Returns the ids blocked.
CREATE FUNCTION weir.block_line_v1(p_key text, p_own int, p_queues text[], p_kinds text[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
  v_ids uuid[]; v_had uuid[];
BEGIN
  v_ids := ARRAY(
    SELECT l.id FROM weir.live AS l
    WHERE l.state = 0 AND l.keys IS NOT NULL AND l.keys[1] = p_key AND cardinality(l.keys) = 1
      AND coalesce(l.key_limits[1], 1) <= p_own AND l.ready_at <= statement_timestamp() AND l.crashes < 2 AND l.mode = 0
      AND l.queue = ANY (p_queues) AND l.kind = ANY (p_kinds) AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())
      AND (SELECT k.slot FROM weir.locks AS k WHERE k.job_id = l.id LIMIT 1) IS NULL
    ORDER BY l.line_at, l.id LIMIT 1000);
  IF v_ids = '{}' THEN
    RETURN v_ids;
  END IF;
  v_had := ARRAY(
    SELECT l.id FROM unnest(v_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
    WHERE l.state + 0 = 0 AND l.ready_at <= statement_timestamp()
    FOR UPDATE OF l SKIP LOCKED);
  WITH line AS (
    SELECT i.id, count(*) FILTER (WHERE h.id IS NULL) OVER (ORDER BY i.n) AS gaps
    FROM unnest(v_ids) WITH ORDINALITY AS i (id, n) LEFT JOIN unnest(v_had) AS h (id) ON h.id = i.id
  ), blocked AS (
    UPDATE weir.live AS l SET state = 2, blocked_on = p_key
    FROM line AS i
    WHERE i.gaps = 0 AND l.id = ANY (ARRAY[i.id]) AND (SELECT k.slot FROM weir.locks AS k WHERE k.job_id = l.id LIMIT 1) IS NULL
    RETURNING l.id
  )
  SELECT array_agg(b.id) FROM blocked AS b INTO v_ids;
  RETURN coalesce(v_ids, '{}');
END
$$;
