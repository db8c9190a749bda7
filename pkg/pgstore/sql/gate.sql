-- gate: may jobs of these queues and kinds start now, here? $1 session, $2 queues, $3 kinds of a process. Returns whether the
-- session is live (sessionGuard), the queues and the kinds among them that are not paused, those of the queues that have a
-- limit for the whole fleet, and whether there is any entry in limits. No locks.
CREATE FUNCTION weir.gate_v1(p_session uuid, p_queues text[], p_kinds text[],
  OUT alive boolean, OUT queues text[], OUT kinds text[], OUT limited text[], OUT entries boolean)
LANGUAGE plpgsql STABLE
AS $$
BEGIN
  SELECT coalesce((SELECT s.dead_at IS NULL FROM weir.sessions AS s WHERE s.id = p_session), false),
    ARRAY(SELECT q.name FROM weir.queues AS q WHERE q.name = ANY (p_queues) AND q.paused_at IS NOT NULL),
    ARRAY(SELECT k.name FROM weir.kinds AS k WHERE k.name = ANY (p_kinds) AND k.paused_at IS NOT NULL),
    ARRAY(SELECT q.name FROM weir.queues AS q WHERE q.name = ANY (p_queues) AND (q.slots IS NOT NULL OR q.rate IS NOT NULL)),
    EXISTS (SELECT FROM weir.limits)
  INTO alive, queues, kinds, limited, entries;
  queues := CASE WHEN queues = '{}' THEN p_queues ELSE ARRAY(SELECT q FROM unnest(p_queues) AS q WHERE q <> ALL (queues)) END;
  kinds := CASE WHEN kinds = '{}' THEN p_kinds ELSE ARRAY(SELECT k FROM unnest(p_kinds) AS k WHERE k <> ALL (kinds)) END;
END
$$;
