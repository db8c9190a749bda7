-- set_queue_limit: what all workers together may do with a queue. $1 name, $2 jobs at once, $3 starts in a window, $4 the
-- window in ms (NULL: no limit), $5 whether the limits of a YAML file may be replaced ('override', as for limits). Locks the
-- queue's row, as every claim from a limited queue does. Returns a row if it was written; none: they are the file's.
INSERT INTO weir.queues AS q (name, slots, rate, rate_ms, owner) VALUES ($1, $2, $3, $4, '')
ON CONFLICT (name) DO UPDATE SET slots = excluded.slots, rate = excluded.rate, rate_ms = excluded.rate_ms,
  owner = CASE WHEN q.owner = 'config' THEN 'override' ELSE coalesce(q.owner, '') END
WHERE q.owner IS DISTINCT FROM 'config' OR $5
RETURNING q.owner
