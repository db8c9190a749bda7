-- sessions: rows of processes that died more than $1 ms ago and of which nothing is left to recover are deleted, at
-- most $2. A dead session cannot claim (claim reads dead_at), so none can begin to run again. Locks SKIP LOCKED.
DELETE FROM weir.sessions AS s
USING (
  SELECT x.id FROM weir.sessions AS x
  WHERE x.dead_at < statement_timestamp() - $1::bigint * interval '1 ms'
    AND NOT EXISTS (SELECT FROM weir.live AS l WHERE l.session = x.id AND l.state = 1)
  ORDER BY x.id LIMIT $2 FOR UPDATE SKIP LOCKED
) AS d
WHERE s.id = d.id
