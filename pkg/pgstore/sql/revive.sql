-- revive: retry by hand. $1 ids, sorted. A dead job becomes available under the same id, with all its attempts and a
-- higher fence; one that waits for a retry or for its time becomes due now. Its log row is put into
-- jobs_kept. Returns each id that is due now.
CREATE FUNCTION weir.revive_v1(p_ids uuid[]) RETURNS TABLE (job_id uuid, job_queue text, job_kind text, due timestamptz)
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
  d weir.dead%ROWTYPE;
  v_dead uuid[];
BEGIN
  RETURN QUERY
  UPDATE weir.live AS l SET ready_at = clock_timestamp()
  FROM (SELECT x.id FROM weir.live AS x WHERE x.id = ANY (p_ids) AND x.state = 0 AND x.ready_at > statement_timestamp()
    ORDER BY x.id FOR UPDATE) AS w
  WHERE l.id = w.id
  RETURNING l.id, l.queue, l.kind, l.ready_at;
  -- Locked in one order by all, and only what is locked is touched: what died since then would be out of order.
  SELECT array_agg(y.id) FROM (SELECT x.id FROM weir.dead AS x WHERE x.id = ANY (p_ids) ORDER BY x.id FOR UPDATE) AS y INTO v_dead;
  FOR d IN
    DELETE FROM weir.dead AS x WHERE x.id = ANY (v_dead) AND x.payload IS NOT NULL RETURNING x.*
  LOOP
    -- Also when the log still has it: rotate_empty relies on it that no job needs an old log row anew.
    INSERT INTO weir.jobs_kept (id, enqueued_at, scheduled_at, timeout_ms, parent_id, max_attempts, priority, mode,
      kind, queue, payload, backoff, keys, tags, metadata, trace, failure_kind)
    VALUES (d.id, d.enqueued_at, d.scheduled_at, d.timeout_ms, d.parent_id, d.max_attempts, d.priority, d.mode,
      d.kind, d.queue, d.payload, d.backoff, d.keys, d.tags, d.metadata, d.trace, d.failure_kind)
    ON CONFLICT (id) DO NOTHING;
    RETURN QUERY
    INSERT INTO weir.live AS l (ready_at, fence, max_attempts, size, priority, mode, id, queue, kind, keys)
    VALUES (clock_timestamp(), d.fence + 1, d.max_attempts, octet_length(d.payload::text), d.priority, d.mode, d.id, d.queue, d.kind, d.keys)
    ON CONFLICT (id) DO NOTHING
    RETURNING l.id, l.queue, l.kind, l.ready_at;
  END LOOP;
END
$$;
