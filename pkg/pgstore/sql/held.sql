-- held: what this session holds by the database's account: after a claim whose reply was lost, and when a renewal
-- counts more than the process knows. $1 session. No locks; index live_session.
SELECT l.id, l.fence
FROM weir.live AS l
WHERE l.session = $1 AND l.state = 1
