-- workers: the processes that were not given up, by host and process id. No locks.
SELECT s.id, s.role, s.host, s.pid, s.version, s.state, s.busy, s.slots, s.queues,
  extract(epoch FROM s.lease_until - statement_timestamp())::float8,
  extract(epoch FROM statement_timestamp() - s.started_at)::float8
FROM weir.sessions AS s
WHERE s.dead_at IS NULL
ORDER BY s.role DESC, s.host, s.pid, s.id
