-- explain_queue: the kinds of the due jobs of a queue $1, the most of them first, with how many living workers that serve it know
-- each, and for how long it is paused (-1: it is not). Looks at the first 1,000 jobs of each priority without keys and as many with.
-- No locks; live_ready and live_keyed.
WITH due AS (
  SELECT x.kind FROM generate_series(1, 9) AS p
  CROSS JOIN LATERAL (
    (SELECT l.kind FROM weir.live AS l WHERE l.state = 0 AND l.flags & 1 = 0 AND l.queue = $1 AND l.priority = p
      AND l.ready_at <= statement_timestamp() ORDER BY l.ready_at, l.id LIMIT 1000)
    UNION ALL
    (SELECT l.kind FROM weir.live AS l WHERE l.state = 0 AND l.flags & 1 = 1 AND l.queue = $1 AND l.priority = p
      AND l.ready_at <= statement_timestamp() ORDER BY l.ready_at, l.id LIMIT 1000)) AS x
)
SELECT d.kind, count(*),
  (SELECT count(*) FROM weir.sessions AS s WHERE s.role = 'worker' AND s.state = 'serving' AND s.dead_at IS NULL
    AND s.lease_until > statement_timestamp() AND $1 = ANY (s.queues) AND d.kind = ANY (s.kinds)),
  coalesce((SELECT extract(epoch FROM statement_timestamp() - k.paused_at) FROM weir.kinds AS k WHERE k.name = d.kind AND k.paused_at IS NOT NULL), -1)::float8
FROM due AS d
GROUP BY d.kind
ORDER BY count(*) DESC, d.kind
LIMIT 20
