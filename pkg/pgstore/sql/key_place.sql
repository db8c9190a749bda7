-- key_place: how many jobs wait for a lock, and how many of them before a place. $1 key, $2 and $3 the place: when a job
-- joined the line, and its id. Counts 100,000 of each at most. No locks; live_line and the primary key of waits.
SELECT
  (SELECT count(*) FROM (SELECT FROM weir.live AS b WHERE b.state = 2 AND b.keys[1] = $1 LIMIT 100000) AS x)
    + (SELECT count(*) FROM (SELECT FROM weir.waits AS w WHERE w.key = $1 LIMIT 100000) AS x),
  (SELECT count(*) FROM (SELECT FROM weir.live AS b WHERE b.state = 2 AND b.keys[1] = $1 AND (b.line_at, b.id) < ($2, $3) LIMIT 100000) AS x)
    + (SELECT count(*) FROM (SELECT FROM weir.waits AS w WHERE w.key = $1 AND (w.line_at, w.job_id) < ($2, $3) LIMIT 100000) AS x)
