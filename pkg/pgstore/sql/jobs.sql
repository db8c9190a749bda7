-- jobs: a page of jobs, newest id first. $1 ids below this one, $2 queue, $3 kind, $4 state in words, $5 a tag,
-- $6 enqueued since (an id's floor), $7 at most so many, $8 a key, of a lock or a rate; '' and NULL do not filter. No locks.
SELECT s.id, s.kind, s.queue, s.priority, s.state, s.attempt, s.max_attempts, s.crashes, s.fence, s.session, s.ready_at,
  s.claimed_at, s.finished_at, s.expires_at, s.result, s.error, s.enqueued_at, s.scheduled_at, s.payload, s.timeout_ms,
  s.backoff, s.tags, s.metadata, s.trace, s.parent_id, s.keys, s.key_limits, s.rates, s.mode
FROM weir.job_status AS s
WHERE s.id < $1
  AND ($2 = '' OR s.queue = $2)
  AND ($3 = '' OR s.kind = $3)
  AND ($4 = '' OR s.state = $4)
  AND ($5 = '' OR s.tags @> ARRAY[$5])
  AND s.id >= $6
  AND ($8 = '' OR s.keys @> ARRAY[$8] OR $8 = ANY (ARRAY(SELECT substr(r, strpos(r, ' ') + 1) FROM unnest(s.rates) AS r)))
ORDER BY s.id DESC
LIMIT $7
