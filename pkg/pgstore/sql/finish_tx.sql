-- finish_tx: complete one job in the caller's own transaction, so that its effects and its end are one commit.
-- $1 session, $2 id, $3 fence, $4 result. Fenced as finish: no row means that the claim has ended, and the caller must
-- roll back. Should this connection hang half open, the server ends the transaction after a minute: its row lock
-- would keep the job from everyone. Its locks go with it, by its fence; they are passed on after the handler. So does a unique key
-- (keyDies), unless its time is not over.
WITH bound AS (SELECT set_config('idle_in_transaction_session_timeout', '60s', true)), gone AS (
  DELETE FROM weir.live AS l USING bound
  WHERE l.id = $2 AND l.fence = $3 AND l.session IS NOT DISTINCT FROM $1
  RETURNING l.id, l.queue, l.fence, l.attempt, l.claimed_at, l.keys, l.flags
), unlocked AS (
  DELETE FROM weir.locks AS k USING gone AS g
  WHERE g.keys IS NOT NULL AND k.job_id = g.id AND k.fence = g.fence
), unkeyed AS (
  DELETE FROM weir.uniques AS u USING gone AS g
  WHERE g.flags & 2 <> 0 AND u.job_id = g.id AND (u.until IS NULL OR u.until <= statement_timestamp())
)
INSERT INTO weir.outcomes (finished_at, claimed_at, fence, attempt, id, session, queue, result)
SELECT clock_timestamp(), g.claimed_at, g.fence, g.attempt, g.id, $1, g.queue, $4::text::json
FROM gone AS g
RETURNING id
