-- schedule_list: those of a name, or all of them when it is empty, by name. $1 name. Locks nothing. Returns all that is known of them,
-- and the time.
SELECT s.name, s.owner, s.fence, s.next_at, s.enabled, s.override, s.cron, s.zone, s.every_ms, s.misfire, s.misfire_cap, s.job,
  s.last_at, s.last_job, s.last_error, coalesce(o.version, 0), clock_timestamp()
FROM weir.schedules AS s
LEFT JOIN weir.schedule_owners AS o ON o.owner = s.owner
WHERE s.name = $1 OR $1 = ''
ORDER BY s.name
