-- key_line: the beginning of a lock's line. $1 key, $2 at most so many. Jobs of several locks stand in the line of their first by
-- live_line, in those of the others by waits. Each with its own number for the key and how long it waits. No locks.
SELECT x.id, l.kind, l.queue, extract(epoch FROM statement_timestamp() - x.line_at)::float8, coalesce(l.key_limits[array_position(l.keys, $1)], 1)
FROM (
  (SELECT b.id, b.line_at FROM weir.live AS b WHERE b.state = 2 AND b.keys[1] = $1 ORDER BY b.line_at, b.id LIMIT $2)
  UNION
  (SELECT w.job_id, w.line_at FROM weir.waits AS w WHERE w.key = $1 ORDER BY w.line_at, w.job_id LIMIT $2)) AS x
JOIN weir.live AS l ON l.id = x.id AND l.state = 2
ORDER BY x.line_at, x.id
LIMIT $2
