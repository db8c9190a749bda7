-- new_rows: the log rows of a call of enqueue, in the arrays' order; each is stamped when it is made. Part of enqueue's two
-- statements (a function of its own would cost a single enqueue 40 microseconds). The second of them takes keys too: there the
-- text behind a colon stands in the place of the word before it. (In both they would cost a job without keys 4 microseconds.)
SELECT i.id, clock_timestamp(), coalesce(i.scheduled, clock_timestamp() + i.delay_ms * interval '1 ms'),
  CASE WHEN i.expires_ms IS NOT NULL THEN -- counted from when it is due; greatest() passes over a NULL
    greatest(i.scheduled, clock_timestamp() + coalesce(i.delay_ms, 0) * interval '1 ms') + i.expires_ms * interval '1 ms'
  END,
  i.timeout_ms, i.parent, i.max_attempts, i.priority, 0::smallint /*: coalesce(i.mode, 0::smallint) */, i.kind, i.queue, i.payload::json, i.backoff,
  NULL::text[] /*: i.keys::text[] */, CASE WHEN i.tags IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(i.tags::json)) END,
  i.metadata::json, i.trace, NULL::text /*: i.failure, i.key_limits::int[], i.rates::text[] */
  FROM unnest(p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_max_attempts, p_delays_ms, p_scheduled,
  p_expires_ms, p_timeouts_ms, p_backoffs, p_tags, p_metadata, p_traces, p_parents /*: p_parents, p_keys, p_key_limits, p_rates, p_modes, p_failures */)
  AS i (id, kind, queue, payload, priority, max_attempts, delay_ms, scheduled,
    expires_ms, timeout_ms, backoff, tags, metadata, trace, parent /*: parent, keys, key_limits, rates, mode, failure */)
