-- beat: a sweeper renews its own lease and measures the database with it. $1 session, $2 lease in ms.
-- trustWrites: unlike a worker's renewal this commit waits for the disk, whatever the role's settings say: reads and
-- asynchronous commits can work while nothing becomes durable. Locks the session's row. Returns no row if the session
-- was given away; else the time, and the longest and the shortest lease among live sessions, in ms.
WITH durable AS (
  SELECT CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END
), beat AS (
  UPDATE weir.sessions AS s
  SET lease_until = clock_timestamp() + $2::int * interval '1 ms', lease_ms = $2::int
  FROM durable
  WHERE s.id = $1 AND s.dead_at IS NULL
  RETURNING s.id
)
SELECT clock_timestamp(), l.longest, l.shortest
FROM beat, (SELECT max(s.lease_ms) AS longest, min(s.lease_ms) AS shortest FROM weir.sessions AS s WHERE s.dead_at IS NULL) AS l
