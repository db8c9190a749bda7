-- key_holders: who has a lock. $1 key, $2 at most so many. Each with its slot, job, how long a reservation or a lingering
-- holder keeps it (NULL: a running job), the live row, since when it runs, its session's process and lease left, its timeout and
-- its own number for the key. No locks; primary keys.
SELECT k.slot, k.job_id, extract(epoch FROM k.until - statement_timestamp())::float8, coalesce(l.kind, ''), coalesce(l.queue, ''),
  coalesce(l.state, -1::smallint), l.session, coalesce(s.host, ''), coalesce(s.pid, 0),
  coalesce(extract(epoch FROM statement_timestamp() - l.claimed_at), 0)::float8,
  coalesce(extract(epoch FROM s.lease_until - statement_timestamp()), 0)::float8,
  coalesce(j.timeout_ms, 0), coalesce(l.key_limits[array_position(l.keys, $1)], 1)
FROM weir.locks AS k
LEFT JOIN weir.live AS l ON l.id = k.job_id
LEFT JOIN weir.sessions AS s ON s.id = l.session
LEFT JOIN LATERAL weir.log_row(k.job_id) AS j ON true
WHERE k.key = $1
ORDER BY k.slot
LIMIT $2
