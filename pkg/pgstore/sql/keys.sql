-- keys: locks that somebody has or waits for, those with the longest lines first. $1 the beginning of their names, $2 at most
-- so many. Each with how many run with it, how many have it otherwise (next in line, or released a moment ago) and how many
-- are blocked. No locks; reads all of locks, of the blocked jobs (live_line) and of waits.
SELECT key, sum(running)::bigint, sum(kept)::bigint, sum(waiting)::bigint
FROM (
  SELECT k.key, count(*) FILTER (WHERE k.until IS NULL) AS running, count(*) FILTER (WHERE k.until IS NOT NULL) AS kept, 0 AS waiting
  FROM weir.locks AS k WHERE starts_with(k.key, $1) GROUP BY k.key
  UNION ALL
  SELECT l.keys[1], 0, 0, count(*) FROM weir.live AS l WHERE l.state = 2 AND starts_with(l.keys[1], $1) GROUP BY l.keys[1]
  UNION ALL
  SELECT w.key, 0, 0, count(*) FROM weir.waits AS w WHERE starts_with(w.key, $1) GROUP BY w.key
) AS x
GROUP BY key
ORDER BY 4 DESC, 2 DESC, key
LIMIT $2
