-- renew: extend a session's lease. $1 session, $2 lease in ms, $3 slots, $4 busy, $5 state.
-- Accepted until the sweeper has marked the session dead, not only until lease_until (renewExpired): an outage of the
-- database costs nobody his work. Locks the session's row. Commits without waiting for the disk: a lost renewal is
-- the same as one that was not sent. Returns no row if the session was given away; else what changed meanwhile.
CREATE FUNCTION weir.renew_v1(p_session uuid, p_lease_ms int, p_slots int, p_busy int, p_state text)
RETURNS TABLE (db_now timestamptz, running bigint, cancelled uuid[], sweeper boolean, paused_queues text[], paused_kinds text[])
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE weir.sessions AS s
  SET lease_until = clock_timestamp() + p_lease_ms * interval '1 ms', lease_ms = p_lease_ms, slots = p_slots,
    busy = p_busy, state = p_state
  WHERE s.id = p_session AND s.dead_at IS NULL;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  RETURN QUERY SELECT clock_timestamp(), count(*), array_agg(l.id) FILTER (WHERE l.flags & 4 <> 0),
    EXISTS (SELECT FROM weir.sessions AS w WHERE w.role = 'sweeper' AND w.dead_at IS NULL AND w.lease_until > statement_timestamp()),
    ARRAY(SELECT q.name FROM weir.queues AS q WHERE q.paused_at IS NOT NULL ORDER BY 1),
    ARRAY(SELECT k.name FROM weir.kinds AS k WHERE k.paused_at IS NOT NULL ORDER BY 1)
  FROM weir.live AS l WHERE l.session = p_session AND l.state = 1;
END
$$;
