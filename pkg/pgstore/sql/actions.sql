-- actions: what was done by hand before $1 is forgotten, at most $2. Index actions_at. Locks SKIP LOCKED.
DELETE FROM weir.actions AS a
WHERE a.ctid = ANY (ARRAY(
  SELECT x.ctid FROM weir.actions AS x
  WHERE x.at < $1::timestamptz
  ORDER BY x.at LIMIT $2 FOR UPDATE SKIP LOCKED))
