-- runnable: can anybody start a job of this queue and kind: neither is paused, and a live worker knows both. What nobody can
-- run does not hold the line of its keys. No locks.
CREATE FUNCTION weir.runnable_v1(p_queue text, p_kind text) RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
BEGIN
  RETURN NOT EXISTS (SELECT FROM weir.queues AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM weir.kinds AS k WHERE k.name = p_kind AND k.paused_at IS NOT NULL)
    AND EXISTS (SELECT FROM weir.sessions AS s
      WHERE s.dead_at IS NULL AND s.lease_until > statement_timestamp() AND p_queue = ANY (s.queues) AND p_kind = ANY (s.kinds));
END
$$;
