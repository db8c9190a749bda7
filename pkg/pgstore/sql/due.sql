-- due: what the wake duty has to announce now and within the next moments, one statement for all queues.
-- $1 window and $2 grace in ms: rows due for less than the window and more than the grace (those just enqueued have a
-- hint of their own); $3 horizon in ms: rows that come due within it; $4 most rows looked at for each queue, priority
-- and part. A range on live_ready and live_keyed at both ends: dead entries behind a held snapshot and backlogs lie outside.
-- Only queues that a live worker serves, that are not paused, and only kinds that such a worker knows: what nobody can
-- run wakes nobody. Returns a row a queue that has something: how many are due and the least ready_at among them, the
-- coming ready_at in order, and the time.
CREATE FUNCTION weir.due_v1(p_window_ms int, p_grace_ms int, p_horizon_ms int, p_limit int)
RETURNS TABLE (due_queue text, due bigint, oldest timestamptz, coming timestamptz[], db_now timestamptz)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  r record;
  v_due bigint; v_least timestamptz; v_coming timestamptz[];
  v_from timestamptz := statement_timestamp() - p_window_ms * interval '1 ms';
  v_to timestamptz := statement_timestamp() - p_grace_ms * interval '1 ms';
  v_until timestamptz := statement_timestamp() + p_horizon_ms * interval '1 ms';
BEGIN
  FOR r IN SELECT w.queue, w.kinds FROM weir.served_v1() AS w LOOP
    due := 0; oldest := NULL; coming := NULL;
    FOR p IN 1 .. 9 LOOP
      SELECT count(*), min(x.ready_at) FROM (
        (SELECT l.ready_at, l.kind, l.expires_at FROM weir.live AS l
        WHERE l.state = 0 AND l.flags & 1 = 0 AND l.queue = r.queue AND l.priority = p AND l.ready_at >= v_from AND l.ready_at < v_to
        ORDER BY l.ready_at LIMIT p_limit)
        UNION ALL
        (SELECT l.ready_at, l.kind, l.expires_at FROM weir.live AS l
        WHERE l.state = 0 AND l.flags & 1 = 1 AND l.queue = r.queue AND l.priority = p AND l.ready_at >= v_from AND l.ready_at < v_to
        ORDER BY l.ready_at LIMIT p_limit)) AS x
      WHERE x.kind = ANY (r.kinds) AND (x.expires_at IS NULL OR x.expires_at > statement_timestamp())
      INTO v_due, v_least;
      due := due + v_due;
      oldest := least(oldest, v_least);
      SELECT array_agg(x.ready_at ORDER BY x.ready_at) FROM (
        (SELECT l.ready_at, l.kind FROM weir.live AS l
        WHERE l.state = 0 AND l.flags & 1 = 0 AND l.queue = r.queue AND l.priority = p
          AND l.ready_at > statement_timestamp() AND l.ready_at <= v_until
        ORDER BY l.ready_at LIMIT p_limit)
        UNION ALL
        (SELECT l.ready_at, l.kind FROM weir.live AS l
        WHERE l.state = 0 AND l.flags & 1 = 1 AND l.queue = r.queue AND l.priority = p
          AND l.ready_at > statement_timestamp() AND l.ready_at <= v_until
        ORDER BY l.ready_at LIMIT p_limit)) AS x
      WHERE x.kind = ANY (r.kinds)
      INTO v_coming;
      coming := coming || v_coming;
    END LOOP;
    CONTINUE WHEN due = 0 AND coming IS NULL;
    due_queue := r.queue; db_now := clock_timestamp();
    RETURN NEXT;
  END LOOP;
END
$$;
