-- uniques_delete: $1 kinds, $2 keys, $3 slots, $4 jobs, in step, as uniques saw them. sweepByJob: a key that has gone
-- over to another job since then stays. Locks SKIP LOCKED, in the order of the key.
DELETE FROM weir.uniques AS u
USING (
  SELECT x.kind, x.key, x.slot, x.job_id
  FROM weir.uniques AS x
  JOIN unnest($1::text[], $2::bytea[], $3::smallint[], $4::uuid[]) AS i (kind, key, slot, job_id)
    ON x.kind = i.kind AND x.key = i.key AND x.slot = i.slot AND x.job_id = i.job_id
  WHERE x.until IS NULL OR x.until < statement_timestamp()
  ORDER BY x.kind, x.key, x.slot FOR UPDATE OF x SKIP LOCKED
) AS s
WHERE u.kind = s.kind AND u.key = s.key AND u.slot = s.slot AND u.job_id = s.job_id
  AND (u.until IS NULL OR u.until < statement_timestamp())
