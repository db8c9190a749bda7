-- unset_limit: take an entry of limits away. $1 key or prefix, $2 whether a prefix, $3 whether of a rate, $4 whether one of a
-- YAML file too (whose owner writes it again when it starts). Locks the entry. Returns whether it is gone; no row: there was none.
WITH gone AS (
  DELETE FROM weir.limits AS l
  WHERE l.key = $1 AND l.prefix = $2 AND l.rate = $3 AND (l.owner <> 'config' OR $4)
  RETURNING true AS gone
)
SELECT gone FROM gone
UNION ALL
SELECT false FROM weir.limits AS l
WHERE l.key = $1 AND l.prefix = $2 AND l.rate = $3 AND NOT EXISTS (SELECT FROM gone)
