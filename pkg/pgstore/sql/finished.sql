-- finished: jobs that completed, and that were discarded or expired, within the last hour, per queue. $1 and $2 percent of
-- the pages of outcomes and dead that are read: below 100 the figures are estimates. No locks.
SELECT x.queue, sum(x.done)::bigint, sum(x.failed)::bigint
FROM (
  SELECT o.queue, count(*) * 100 / $1::float8 AS done, 0 AS failed
  FROM weir.outcomes AS o TABLESAMPLE SYSTEM ($1::float8)
  WHERE o.finished_at > statement_timestamp() - interval '1 hour'
  GROUP BY o.queue
  UNION ALL
  SELECT d.queue, 0, count(*) * 100 / $2::float8
  FROM weir.dead AS d TABLESAMPLE SYSTEM ($2::float8)
  WHERE d.finished_at > statement_timestamp() - interval '1 hour' AND d.state IN (1, 3)
  GROUP BY d.queue
) AS x
GROUP BY x.queue
