-- enqueue: one statement for one job or thousands. Arrays run in step; one that no job of the call needs is NULL. Of keys,
-- their limits and rates each element is the text of an array, as the columns of that name are, or NULL.
-- p_flags are further flags of the live rows, for callers that give p_fresh as false.
-- Log row and live row are written together; a live row only for an id whose log row this very statement inserted
-- (liveFromLog): an attempt that its client gave up and any number of retries with the same id run the job once.
-- p_fresh promises ids that were made for this call: the insert then does without ON CONFLICT, whose confirmation costs
-- 48 bytes of WAL a row, and should the promise be broken nothing is stored (23505).
-- Locks: none but on the rows themselves; ids come sorted, so that two retries of one batch do not deadlock.
-- Returns the database time, how many were inserted, the least ready_at among them and the ids that were there before.
CREATE FUNCTION weir.enqueue_v1(
  p_ids uuid[], p_kinds text[], p_queues text[], p_payloads text[], p_priorities smallint[], p_max_attempts int[],
  p_delays_ms bigint[], p_scheduled timestamptz[], p_expires_ms bigint[], p_timeouts_ms bigint[], p_backoffs text[],
  p_tags text[], p_metadata text[], p_traces text[], p_parents uuid[], p_fresh boolean,
  p_keys text[] DEFAULT NULL, p_key_limits text[] DEFAULT NULL, p_rates text[] DEFAULT NULL,
  p_modes smallint[] DEFAULT NULL, p_failures text[] DEFAULT NULL, p_flags smallint DEFAULT 0
) RETURNS TABLE (db_now timestamptz, inserted bigint, least_ready timestamptz, duplicates uuid[])
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_new uuid[]; v_kept uuid[] := '{}';
BEGIN
  -- A partition so far ahead does not exist yet: the row would lie in the default partition and stop its creation.
  IF weir.id_floor(clock_timestamp() + interval '10 min') < ANY (p_ids) THEN
    RAISE EXCEPTION 'id more than 10 min ahead of the database clock' USING ERRCODE = 'WE001';
  END IF;
  db_now := clock_timestamp();
  IF p_fresh AND p_keys IS NULL AND p_rates IS NULL AND p_modes IS NULL AND p_failures IS NULL THEN
    -- Two plain inserts, not one statement with RETURNING between them: that would cost a single enqueue half as much again.
    INSERT INTO weir.jobs AS j
    /* new_rows */;
    INSERT INTO weir.live (ready_at, expires_at, max_attempts, size, priority, id, queue, kind)
    SELECT greatest(i.scheduled, clock_timestamp() + coalesce(i.delay_ms, 0) * interval '1 ms'),
      greatest(i.scheduled, clock_timestamp() + coalesce(i.delay_ms, 0) * interval '1 ms') + i.expires_ms * interval '1 ms',
      i.max_attempts, octet_length(i.payload), i.priority, i.id, i.queue, i.kind
    FROM unnest(p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_max_attempts, p_delays_ms, p_scheduled, p_expires_ms)
      AS i (id, kind, queue, payload, priority, max_attempts, delay_ms, scheduled, expires_ms);
    inserted := cardinality(p_ids);
    IF p_delays_ms IS NULL AND p_scheduled IS NULL THEN
      least_ready := db_now; -- no later than the first stamp
    ELSE
      SELECT min(greatest(i.scheduled, db_now + coalesce(i.delay_ms, 0) * interval '1 ms'))
      FROM unnest(p_delays_ms, p_scheduled) AS i (delay_ms, scheduled) INTO least_ready;
    END IF;
  ELSE
    IF weir.id_floor(clock_timestamp() - interval '1 min') > ANY (p_ids) THEN -- younger than any partition that is emptied
      v_kept := weir.kept_ids_v1(p_ids);
    END IF;
    WITH logged AS (
      INSERT INTO weir.jobs AS j
      /* new_rows, keyed */
      WHERE i.id <> ALL (v_kept)
      ON CONFLICT (id) DO NOTHING
      RETURNING j.id, j.enqueued_at, j.scheduled_at, j.expires_at, j.max_attempts, j.priority, j.mode, j.kind, j.queue,
        octet_length(j.payload::text) AS size, j.keys, j.key_limits, j.rates
    ), put AS (
      INSERT INTO weir.live AS l (ready_at, line_at, expires_at, max_attempts, size, priority, mode, id, queue, kind, keys, key_limits, rates, flags)
      SELECT greatest(scheduled_at, enqueued_at), CASE WHEN keys IS NOT NULL THEN greatest(scheduled_at, enqueued_at) END,
        expires_at, max_attempts, size, priority, mode, logged.id, queue, kind, keys, key_limits, rates,
        p_flags | CASE WHEN keys IS NULL AND rates IS NULL THEN 0 ELSE 1 END
      FROM logged
      RETURNING l.ready_at, l.id
    )
    SELECT count(*), min(ready_at), array_agg(put.id) FROM put INTO inserted, least_ready, v_new;
    db_now := clock_timestamp(); -- not before the stamps: what is due now must not look as if it came later
  END IF;
  IF inserted < cardinality(p_ids) THEN
    duplicates := ARRAY(SELECT i.id FROM unnest(p_ids) AS i (id) WHERE v_new IS NULL OR i.id <> ALL (v_new));
  END IF;
  RETURN NEXT;
END
$$;
