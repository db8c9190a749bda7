-- new_rows: the log rows of a call of enqueue, in the arrays' order; each is stamped when it is made. Part of enqueue's two
-- statements (a function of its own would cost a single enqueue 40 microseconds).
SELECT i.id, clock_timestamp(), coalesce(i.scheduled, clock_timestamp() + i.delay_ms * interval '1 ms'),
  CASE WHEN i.expires_ms IS NOT NULL THEN -- counted from when it is due; greatest() passes over a NULL
    greatest(i.scheduled, clock_timestamp() + coalesce(i.delay_ms, 0) * interval '1 ms') + i.expires_ms * interval '1 ms'
  END,
  i.timeout_ms, i.parent, i.max_attempts, i.priority, 0::smallint, i.kind, i.queue, i.payload::json, i.backoff,
  NULL::text[], CASE WHEN i.tags IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(i.tags::json)) END,
  i.metadata::json, i.trace, NULL::text
  FROM unnest(p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_max_attempts, p_delays_ms, p_scheduled,
  p_expires_ms, p_timeouts_ms, p_backoffs, p_tags, p_metadata, p_traces, p_parents)
  AS i (id, kind, queue, payload, priority, max_attempts, delay_ms, scheduled,
    expires_ms, timeout_ms, backoff, tags, metadata, trace, parent)
