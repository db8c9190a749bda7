-- enqueue: one statement for one job or thousands. Arrays run in step; one that no job of the call needs is NULL.
-- Log row and live row are written together; a live row only for an id whose log row this very statement inserted
-- (liveFromLog): an attempt that its client gave up and any number of retries with the same id run the job once.
-- p_fresh promises ids that were made for this call: the insert then does without ON CONFLICT, whose confirmation costs
-- 48 bytes of WAL a row, and should the promise be broken nothing is stored (23505).
-- Locks: none but on the rows themselves; ids come sorted, so that two retries of one batch do not deadlock.
-- Returns the database time, how many were inserted, the least ready_at among them and the ids that were there before.
CREATE FUNCTION weir.enqueue_v1(
  p_ids uuid[], p_kinds text[], p_queues text[], p_payloads text[], p_priorities smallint[], p_max_attempts int[],
  p_delays_ms bigint[], p_scheduled timestamptz[], p_expires_ms bigint[], p_timeouts_ms bigint[], p_backoffs text[],
  p_tags text[], p_metadata text[], p_traces text[], p_parents uuid[], p_fresh boolean
) RETURNS TABLE (db_now timestamptz, inserted bigint, least_ready timestamptz, duplicates uuid[])
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
  -- A partition so far ahead does not exist yet: the row would lie in the default partition and stop its creation.
  IF weir.id_floor(clock_timestamp() + interval '10 min') < ANY (p_ids) THEN
    RAISE EXCEPTION 'id more than 10 min ahead of the database clock' USING ERRCODE = 'WE001';
  END IF;
  IF p_fresh THEN
    WITH logged AS (
      INSERT INTO weir.jobs AS j
      SELECT r.* FROM weir.new_rows_v1(p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_max_attempts, p_delays_ms,
        p_scheduled, p_expires_ms, p_timeouts_ms, p_backoffs, p_tags, p_metadata, p_traces, p_parents) AS r
      RETURNING j.id, j.enqueued_at, j.scheduled_at, j.expires_at, j.max_attempts, j.priority, j.kind, j.queue,
        octet_length(j.payload::text) AS size
    ), put AS (
      INSERT INTO weir.live AS l (ready_at, expires_at, max_attempts, size, priority, id, queue, kind)
      SELECT greatest(scheduled_at, enqueued_at), expires_at, max_attempts, size, priority, logged.id, queue, kind
      FROM logged
      RETURNING l.ready_at
    )
    SELECT clock_timestamp(), count(*), min(ready_at) FROM put INTO db_now, inserted, least_ready;
  ELSE
    WITH logged AS (
      INSERT INTO weir.jobs AS j
      SELECT r.* FROM weir.new_rows_v1(p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_max_attempts, p_delays_ms,
        p_scheduled, p_expires_ms, p_timeouts_ms, p_backoffs, p_tags, p_metadata, p_traces, p_parents) AS r
      ON CONFLICT (id) DO NOTHING
      RETURNING j.id, j.enqueued_at, j.scheduled_at, j.expires_at, j.max_attempts, j.priority, j.kind, j.queue,
        octet_length(j.payload::text) AS size
    ), put AS (
      INSERT INTO weir.live AS l (ready_at, expires_at, max_attempts, size, priority, id, queue, kind)
      SELECT greatest(scheduled_at, enqueued_at), expires_at, max_attempts, size, priority, logged.id, queue, kind
      FROM logged
      RETURNING l.ready_at
    )
    SELECT clock_timestamp(), count(*), min(ready_at) FROM put INTO db_now, inserted, least_ready;
  END IF;
  IF inserted < cardinality(p_ids) THEN
    SELECT array_agg(i.id) FROM unnest(p_ids) AS i (id) JOIN weir.jobs AS j ON j.id = i.id AND j.enqueued_at < statement_timestamp()
    INTO duplicates;
  END IF;
  RETURN NEXT;
END
$$;
