-- jobs: a page of jobs, newest id first. $1 ids below this one, $2 queue, $3 kind, $4 state in words, $5 a tag,
-- $6 enqueued since (an id's floor), $7 at most so many; '' and NULL do not filter. No locks.
SELECT s.id, s.kind, s.queue, s.priority, s.state, s.attempt, s.max_attempts, s.crashes, s.fence, s.session, s.ready_at,
  s.claimed_at, s.finished_at, s.expires_at, s.result, s.error, s.enqueued_at, s.scheduled_at, s.payload, s.timeout_ms,
  s.backoff, s.tags, s.metadata, s.trace, s.parent_id
FROM weir.job_status AS s
WHERE s.id < $1
  AND ($2 = '' OR s.queue = $2)
  AND ($3 = '' OR s.kind = $3)
  AND ($4 = '' OR s.state = $4)
  AND ($5 = '' OR s.tags @> ARRAY[$5])
  AND s.id >= $6
ORDER BY s.id DESC
LIMIT $7
