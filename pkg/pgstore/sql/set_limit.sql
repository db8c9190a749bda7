-- set_limit: write an entry of limits. $1 key or prefix, $2 whether a prefix, $3 whether of a rate, $4 number, $5 a rate's
-- window in ms, $6 whether an entry of a YAML file may be replaced: it is then marked 'override', and the file's owner leaves
-- it alone. Locks the entry. Returns a row if it was written; none: it is the file's.
INSERT INTO weir.limits AS l (key, prefix, rate, slots, per_ms) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (key, prefix, rate) DO UPDATE SET slots = excluded.slots, per_ms = excluded.per_ms,
  owner = CASE WHEN l.owner = 'config' THEN 'override' ELSE l.owner END
WHERE l.owner <> 'config' OR $6
RETURNING l.owner
