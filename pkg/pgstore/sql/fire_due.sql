-- fire_due: schedules that are due or come due within $1 ms, by next_at and name, at most $4 behind the place ($2, $3). Reads the
-- index schedules_due, which leaves out what is off; locks nothing. Returns their rhythm, the fence and next_at that fire
-- demands, and the time.
CREATE FUNCTION weir.fire_due_v1(p_horizon_ms int, p_at timestamptz, p_name text, p_limit int)
RETURNS TABLE (name text, fence int, next_at timestamptz, cron text, zone text, every_ms bigint, misfire text, misfire_cap int, db_now timestamptz)
LANGUAGE sql VOLATILE
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
  SELECT s.name, s.fence, s.next_at, s.cron, s.zone, s.every_ms, s.misfire, s.misfire_cap, clock_timestamp()
  FROM weir.schedules AS s
  WHERE coalesce(s.override, s.enabled) AND (s.next_at, s.name) > (p_at, p_name)
    AND s.next_at <= statement_timestamp() + p_horizon_ms * interval '1 ms'
  ORDER BY s.next_at, s.name
  LIMIT p_limit
$$;
