-- queue_limits: the queues with limits, by name, and how many of their jobs run. $1 one of them alone; '': all. No locks; the
-- running ones are found by live_session.
SELECT q.name, coalesce(q.slots, 0), coalesce(q.rate, 0), coalesce(q.rate_ms, 0), coalesce(q.owner, ''),
  (SELECT count(*) FROM weir.live AS l WHERE l.state = 1 AND l.queue = q.name),
  (SELECT coalesce(sum(g.n), 0) FROM unnest(q.granted_at, q.granted) AS g (at, n)
    WHERE g.at > statement_timestamp() - q.rate_ms * interval '1 ms')
FROM weir.queues AS q
WHERE (q.slots IS NOT NULL OR q.rate IS NOT NULL) AND ($1 = '' OR q.name = $1)
ORDER BY q.name COLLATE "C"
