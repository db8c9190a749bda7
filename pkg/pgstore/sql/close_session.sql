-- close_session: a process has nothing left. $1 session. The row goes only if no running job names it: else its lease
-- runs out and the sweeper recovers them.
DELETE FROM weir.sessions AS s
WHERE s.id = $1 AND NOT EXISTS (SELECT FROM weir.live AS l WHERE l.session = $1 AND l.state = 1)
