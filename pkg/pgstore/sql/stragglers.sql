-- stragglers: rows that have been due for longer than $1 ms and that a live worker could run, from the very start of
-- each queue and priority: what a scan position has passed, a lost hint, a commit that came late. $2 counts at most so
-- many a queue. Unlike due this pages on behind rows that must be left alone, however many, and walks over dead index
-- entries; the caller paces itself by the time it took. Returns a row a queue that has some.
CREATE FUNCTION weir.stragglers_v1(p_age_ms int, p_limit int)
RETURNS TABLE (due_queue text, due bigint, oldest timestamptz)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  r record;
  v_due bigint; v_least timestamptz;
  v_to timestamptz := statement_timestamp() - p_age_ms * interval '1 ms';
BEGIN
  FOR r IN SELECT w.queue, w.kinds FROM weir.served_v1() AS w LOOP
    due := 0; oldest := NULL;
    FOR p IN 1 .. 9 LOOP
      EXIT WHEN due >= p_limit;
      SELECT count(*), min(x.ready_at) FROM (
        (SELECT l.ready_at FROM weir.live AS l
        WHERE l.state = 0 AND l.flags & 1 = 0 AND l.queue = r.queue AND l.priority = p AND l.ready_at < v_to AND l.kind = ANY (r.kinds)
          AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())
        ORDER BY l.ready_at LIMIT p_limit)
        UNION ALL
        (SELECT l.ready_at FROM weir.live AS l
        WHERE l.state = 0 AND l.flags & 1 = 1 AND l.queue = r.queue AND l.priority = p AND l.ready_at < v_to AND l.kind = ANY (r.kinds)
          AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())
        ORDER BY l.ready_at LIMIT p_limit)) AS x
      INTO v_due, v_least;
      due := due + v_due;
      oldest := least(oldest, v_least);
    END LOOP;
    CONTINUE WHEN due = 0;
    due_queue := r.queue;
    RETURN NEXT;
  END LOOP;
END
$$;
