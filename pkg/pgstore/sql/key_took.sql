-- key_took: how long the last jobs that completed with a lock took, on average, in seconds, and how many they were. $1 key, $2
-- ids below this one, $3 at most so many, among $4 rows of the log. The log has no index on keys: the newest rows are read
-- backwards by id, which is about the order in which they had the key. No locks.
SELECT avg(extract(epoch FROM x.finished_at - x.claimed_at))::float8, count(*)
FROM (
  SELECT o.finished_at, o.claimed_at
  FROM (SELECT y.id, y.keys FROM weir.jobs AS y WHERE y.id < $2 ORDER BY y.id DESC LIMIT $4) AS j
  CROSS JOIN LATERAL (SELECT z.finished_at, z.claimed_at FROM weir.outcomes AS z WHERE z.id = j.id LIMIT 1) AS o
  WHERE j.keys @> ARRAY[$1::text]
  ORDER BY j.id DESC
  LIMIT $3
) AS x
