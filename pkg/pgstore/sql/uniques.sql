-- uniques: owners of unique keys whose job is not live any more and whose time, if they have one, is over. $1 kind, $2
-- key and $3 slot after which to look; $4 most rows looked at. No locks; primary key. What is found here is deleted in
-- the next statement, by exact values (rule G). Returns all rows looked at, in order, and whether each is over.
SELECT u.kind, u.key, u.slot, u.job_id,
  (u.until IS NULL OR u.until < statement_timestamp()) AND NOT EXISTS (SELECT FROM weir.live AS l WHERE l.id = u.job_id)
FROM weir.uniques AS u
WHERE (u.kind, u.key, u.slot) > ($1, $2, $3)
ORDER BY u.kind, u.key, u.slot
LIMIT $4
