-- queues: every queue that has jobs, is served or is paused, by name. Depths are those of the table counts. No locks.
WITH depth AS (
  SELECT c.queue,
    sum(c.jobs) FILTER (WHERE c.state = 0) AS ready,
    sum(c.jobs) FILTER (WHERE c.state = 1) AS running,
    sum(c.jobs) FILTER (WHERE c.state = 2) AS blocked,
    sum(c.jobs) FILTER (WHERE c.state = 3) AS scheduled,
    sum(c.jobs) FILTER (WHERE c.state = 4) AS retrying,
    min(c.oldest) AS oldest
  FROM weir.counts AS c
  GROUP BY c.queue
), served AS (
  SELECT q.name AS queue, count(*) AS workers, sum(s.slots) AS slots
  FROM weir.sessions AS s CROSS JOIN unnest(s.queues) AS q (name)
  WHERE s.role = 'worker' AND s.dead_at IS NULL AND s.lease_until > statement_timestamp()
  GROUP BY q.name
), paused AS (
  SELECT p.name AS queue, p.paused_at FROM weir.queues AS p WHERE p.paused_at IS NOT NULL
), names AS (
  SELECT d.queue FROM depth AS d UNION SELECT s.queue FROM served AS s UNION SELECT p.queue FROM paused AS p
)
SELECT n.queue, coalesce(s.workers, 0), coalesce(s.slots, 0), coalesce(d.ready, 0)::bigint, coalesce(d.running, 0)::bigint,
  coalesce(d.blocked, 0)::bigint, coalesce(d.scheduled, 0)::bigint, coalesce(d.retrying, 0)::bigint,
  coalesce(extract(epoch FROM statement_timestamp() - d.oldest), 0)::float8,
  coalesce(extract(epoch FROM statement_timestamp() - p.paused_at), -1)::float8
FROM names AS n LEFT JOIN depth AS d USING (queue) LEFT JOIN served AS s USING (queue) LEFT JOIN paused AS p USING (queue)
ORDER BY n.queue COLLATE "C"
