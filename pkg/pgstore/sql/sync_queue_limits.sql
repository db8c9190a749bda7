-- sync_queue_limits: make the limits of queues that a YAML file owns those of its list; see sync_limits. The arrays run in
-- step: names, jobs at once, starts in a window, windows in ms (NULL: none). Locks the rows that it changes, which claims from
-- these queues pass over meanwhile. Returns the names of what changed.
CREATE FUNCTION weir.sync_queue_limits_v1(p_names text[], p_slots int[], p_rates int[], p_rates_ms bigint[]) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  -- One at a time: two that start together with different lists would lock the rows in different orders.
  PERFORM pg_advisory_xact_lock(hashtextextended('weir.sync_queue_limits', 0));
  RETURN QUERY
  UPDATE weir.queues AS q SET slots = NULL, rate = NULL, rate_ms = NULL, granted_at = NULL, granted = NULL, owner = NULL
  WHERE q.owner = 'config' AND q.name <> ALL (p_names)
  RETURNING q.name;
  RETURN QUERY
  INSERT INTO weir.queues AS q (name, slots, rate, rate_ms, owner)
  SELECT i.name, i.slots, i.rate, i.rate_ms, 'config'
  FROM unnest(p_names, p_slots, p_rates, p_rates_ms) AS i (name, slots, rate, rate_ms)
  ORDER BY i.name
  ON CONFLICT (name) DO UPDATE SET slots = excluded.slots, rate = excluded.rate, rate_ms = excluded.rate_ms, owner = 'config'
  WHERE q.owner IS DISTINCT FROM 'override'
    AND (q.slots, q.rate, q.rate_ms, q.owner) IS DISTINCT FROM (excluded.slots, excluded.rate, excluded.rate_ms, excluded.owner)
  RETURNING q.name;
END
$$;
