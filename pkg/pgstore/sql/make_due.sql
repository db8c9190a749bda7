-- make_due: delayed and retrying jobs are due now; for draining in tests. $1 queues, $2 kinds. Locks the rows.
UPDATE weir.live AS l
SET ready_at = clock_timestamp(), line_at = CASE WHEN l.keys IS NOT NULL THEN least(l.line_at, clock_timestamp()) END
WHERE l.state = 0 AND l.ready_at > statement_timestamp() AND l.queue = ANY ($1::text[]) AND l.kind = ANY ($2::text[])
