-- mark_dead: sessions whose lease ended are given away. A locking write (rowLock): after waiting for a renewal that
-- commits late the condition is read again on the renewed row. No arguments. Returns the sessions marked.
UPDATE weir.sessions AS s
SET dead_at = clock_timestamp()
WHERE s.dead_at IS NULL AND s.lease_until < statement_timestamp() AND s.id <> $1::uuid
RETURNING s.id, s.role, s.host, s.pid
