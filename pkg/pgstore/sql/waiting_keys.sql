-- waiting_keys: locks that jobs are blocked on and that an entry of limits is about. $1 key, or the beginning of keys if $2; $3 at
-- most so many. A loose scan of live_line, one step a key, and then the further keys of those with several. No locks.
WITH RECURSIVE line (key) AS (
  (SELECT l.keys[1] FROM weir.live AS l WHERE l.state = 2 AND l.keys[1] >= $1 ORDER BY l.keys[1] LIMIT 1)
  UNION ALL
  SELECT (SELECT l.keys[1] FROM weir.live AS l WHERE l.state = 2 AND l.keys[1] > line.key ORDER BY l.keys[1] LIMIT 1)
  FROM line WHERE CASE WHEN $2 THEN starts_with(line.key, $1) ELSE line.key = $1 END
)
(SELECT line.key FROM line WHERE CASE WHEN $2 THEN starts_with(line.key, $1) ELSE line.key = $1 END LIMIT $3)
UNION
(SELECT w.key FROM weir.waits AS w WHERE CASE WHEN $2 THEN starts_with(w.key, $1) ELSE w.key = $1 END LIMIT $3)
