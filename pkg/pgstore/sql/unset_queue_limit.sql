-- unset_queue_limit: take a queue's limits away. $1 name, $2 whether those of a YAML file too (whose owner writes them again
-- when it starts). Locks the row. Returns whether they are gone; no row: there were none.
WITH gone AS (
  UPDATE weir.queues AS q SET slots = NULL, rate = NULL, rate_ms = NULL, granted_at = NULL, granted = NULL, owner = NULL
  WHERE q.name = $1 AND (q.slots IS NOT NULL OR q.rate IS NOT NULL) AND (q.owner IS DISTINCT FROM 'config' OR $2)
  RETURNING true AS gone
)
SELECT gone FROM gone
UNION ALL
SELECT false FROM weir.queues AS q
WHERE q.name = $1 AND (q.slots IS NOT NULL OR q.rate IS NOT NULL) AND NOT EXISTS (SELECT FROM gone)
