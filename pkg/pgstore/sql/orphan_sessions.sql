-- orphan_sessions: sessions that running jobs name and that have no row (deleted by hand, lost in a restore).
-- A loose scan of live_session. What is found here is acted on in the next statement, by exact values (rule G).
WITH RECURSIVE seen AS (
  (SELECT l.session FROM weir.live AS l WHERE l.state = 1 ORDER BY l.session LIMIT 1)
  UNION ALL
  SELECT (SELECT l.session FROM weir.live AS l WHERE l.state = 1 AND l.session > seen.session ORDER BY l.session LIMIT 1)
  FROM seen WHERE seen.session IS NOT NULL
)
SELECT seen.session FROM seen
WHERE seen.session IS NOT NULL AND NOT EXISTS (SELECT FROM weir.sessions AS s WHERE s.id = seen.session)
