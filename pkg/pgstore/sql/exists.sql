-- exists: whether a job is live. $1 id. Primary key.
SELECT EXISTS (SELECT FROM weir.live AS l WHERE l.id = $1)
