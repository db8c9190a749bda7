-- explain_job: what decides when a live job runs, beside its keys. $1 id. No row: it is not live. No locks. Jobs that run
-- in its queue are counted only if the queue has limits; those before it, up to 10,000, by live_ready and live_keyed.
SELECT statement_timestamp(), l.state, l.flags, l.crashes, l.mode, l.line_at, coalesce(l.blocked_on, ''),
  coalesce(extract(epoch FROM statement_timestamp() - q.paused_at), -1)::float8,
  coalesce(extract(epoch FROM statement_timestamp() - k.paused_at), -1)::float8,
  w.serve, w.know, w.both,
  (SELECT count(*) FROM (
    SELECT FROM weir.live AS a WHERE a.state = 0 AND a.flags & 1 = 0 AND a.queue = l.queue AND a.priority <= l.priority
      AND a.ready_at <= statement_timestamp() AND (a.priority < l.priority OR (a.ready_at, a.id) < (l.ready_at, l.id)) LIMIT 10000) AS x)
  + (SELECT count(*) FROM (
    SELECT FROM weir.live AS a WHERE a.state = 0 AND a.flags & 1 = 1 AND a.queue = l.queue AND a.priority <= l.priority
      AND a.ready_at <= statement_timestamp() AND (a.priority < l.priority OR (a.ready_at, a.id) < (l.ready_at, l.id)) LIMIT 10000) AS x),
  coalesce(s.host, ''), coalesce(s.pid, 0), coalesce(extract(epoch FROM s.lease_until - statement_timestamp()), 0)::float8
FROM weir.live AS l
LEFT JOIN weir.queues AS q ON q.name = l.queue
LEFT JOIN weir.kinds AS k ON k.name = l.kind
LEFT JOIN weir.sessions AS s ON s.id = l.session
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE l.queue = ANY (p.queues)) AS serve, count(*) FILTER (WHERE l.kind = ANY (p.kinds)) AS know,
    count(*) FILTER (WHERE l.queue = ANY (p.queues) AND l.kind = ANY (p.kinds)) AS both
  FROM weir.sessions AS p
  WHERE p.role = 'worker' AND p.state = 'serving' AND p.dead_at IS NULL AND p.lease_until > statement_timestamp()) AS w
WHERE l.id = $1
