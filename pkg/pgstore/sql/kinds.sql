-- kinds: every kind that a live process knows or that is paused, by name. No locks.
WITH known AS (
  SELECT k.name AS kind, count(*) AS workers
  FROM weir.sessions AS s CROSS JOIN unnest(s.kinds) AS k (name)
  WHERE s.role = 'worker' AND s.dead_at IS NULL AND s.lease_until > statement_timestamp()
  GROUP BY k.name
), paused AS (
  SELECT p.name AS kind, p.paused_at FROM weir.kinds AS p WHERE p.paused_at IS NOT NULL
)
SELECT kind, coalesce(k.workers, 0), coalesce(extract(epoch FROM statement_timestamp() - p.paused_at), -1)::float8
FROM known AS k FULL JOIN paused AS p USING (kind)
ORDER BY kind COLLATE "C"
