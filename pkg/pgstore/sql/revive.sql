-- revive: retry by hand. $1 ids, sorted. A dead job becomes available under the same id, with all its attempts and a
-- higher fence; one that waits for a retry or for its time becomes due now. Its log row is put into
-- jobs_kept. One that had a unique key takes it again; while a live job has it, it stays dead (keyRevives).
-- Returns each id that is due now; and with due NULL those that stay dead, with the job that has their key.
CREATE FUNCTION weir.revive_v1(p_ids uuid[]) RETURNS TABLE (job_id uuid, job_queue text, job_kind text, due timestamptz, winner uuid)
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
  d weir.dead%ROWTYPE;
  v_dead uuid[]; v_unique uuid[] := '{}'; v_owner uuid;
BEGIN
  RETURN QUERY
  UPDATE weir.live AS l SET ready_at = clock_timestamp(), line_at = CASE WHEN l.keys IS NOT NULL THEN least(l.line_at, clock_timestamp()) END
  FROM (SELECT x.id FROM weir.live AS x WHERE x.id = ANY (p_ids) AND x.state = 0 AND x.ready_at > statement_timestamp()
    ORDER BY x.id FOR UPDATE) AS w
  WHERE l.id = w.id
  RETURNING l.id, l.queue, l.kind, l.ready_at, NULL::uuid;
  -- Locked in one order by all, and only what is locked is touched: what died since then would be out of order.
  SELECT array_agg(y.id) FROM (SELECT x.id FROM weir.dead AS x WHERE x.id = ANY (p_ids) ORDER BY x.id FOR UPDATE) AS y INTO v_dead;
  FOR d IN
    SELECT x.* FROM weir.dead AS x WHERE x.id = ANY (v_dead) AND x.payload IS NOT NULL AND x.unique_key IS NOT NULL ORDER BY x.kind, x.unique_key, x.id
  LOOP
    INSERT INTO weir.uniques (kind, key, slot, job_id) VALUES (d.kind, d.unique_key, 0, d.id) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      SELECT u.job_id FROM weir.uniques AS u WHERE u.kind = d.kind AND u.key = d.unique_key AND u.slot = 0 INTO v_owner;
      CONTINUE WHEN v_owner IS NULL; -- it has ended just now: without the key, as after a window of another's
      IF v_owner <> d.id THEN
        IF v_owner = ANY (v_unique) OR EXISTS (SELECT FROM weir.live AS l WHERE l.id = v_owner) THEN
          RETURN QUERY SELECT d.id, d.queue, d.kind, NULL::timestamptz, v_owner;
          v_dead := array_remove(v_dead, d.id);
        END IF;
        CONTINUE;
      END IF;
    END IF;
    v_unique := v_unique || d.id;
  END LOOP;
  FOR d IN
    DELETE FROM weir.dead AS x WHERE x.id = ANY (v_dead) AND x.payload IS NOT NULL RETURNING x.*
  LOOP
    -- Also when the log still has it: rotate_empty relies on it that no job needs an old log row anew.
    INSERT INTO weir.jobs_kept (id, enqueued_at, scheduled_at, timeout_ms, parent_id, max_attempts, priority, mode,
      kind, queue, payload, backoff, keys, tags, metadata, trace, failure_kind, key_limits, rates)
    VALUES (d.id, d.enqueued_at, d.scheduled_at, d.timeout_ms, d.parent_id, d.max_attempts, d.priority, d.mode,
      d.kind, d.queue, d.payload, d.backoff, d.keys, d.tags, d.metadata, d.trace, d.failure_kind, d.key_limits, d.rates)
    ON CONFLICT (id) DO NOTHING;
    RETURN QUERY
    INSERT INTO weir.live AS l (ready_at, line_at, flags, fence, max_attempts, size, priority, mode, id, queue, kind, keys, key_limits, rates)
    VALUES (clock_timestamp(), CASE WHEN d.keys IS NOT NULL THEN clock_timestamp() END,
      CASE WHEN d.keys IS NOT NULL OR d.rates IS NOT NULL THEN 1 ELSE 0 END | CASE WHEN d.id = ANY (v_unique) THEN 2 ELSE 0 END, d.fence + 1, d.max_attempts, octet_length(d.payload::text), d.priority, d.mode, d.id, d.queue, d.kind, d.keys, d.key_limits, d.rates)
    ON CONFLICT (id) DO NOTHING
    RETURNING l.id, l.queue, l.kind, l.ready_at, NULL::uuid;
  END LOOP;
END
$$;
