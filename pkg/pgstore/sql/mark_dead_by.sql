-- mark_dead_by: sessions whose lease ended are given away, if the database clock has not passed $2: a mark that was
-- decided on before its sender or the whole machine stood still must not be made after it. $1 the sender's own session.
-- rowLock: each row is locked and its lease read again on the newest version. A row whose renewal is being committed
-- is skipped, not waited for; the next round sees how that went. Returns the sessions marked.
UPDATE weir.sessions AS s
SET dead_at = clock_timestamp()
WHERE s.id IN (
    SELECT x.id FROM weir.sessions AS x
    WHERE x.dead_at IS NULL AND x.lease_until < statement_timestamp() AND x.id <> $1::uuid
      AND statement_timestamp() < $2::timestamptz
    ORDER BY x.id FOR UPDATE SKIP LOCKED
  )
  AND s.dead_at IS NULL
  AND s.lease_until < statement_timestamp()
  AND clock_timestamp() < $2::timestamptz
RETURNING s.id, s.role, s.host, s.pid
