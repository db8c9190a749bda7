-- limit_entry: the entry that counts for a key $1, of a rate if $2: its own, else the longest prefix. No row: the jobs' own
-- numbers count. limit_of() decides in the same way. No locks.
SELECT l.key, l.prefix, l.rate, l.slots, coalesce(l.per_ms, 0), l.owner
FROM weir.limits AS l
WHERE l.rate = $2 AND (NOT l.prefix AND l.key = $1 OR l.prefix AND starts_with($1, l.key))
ORDER BY l.prefix, octet_length(l.key) DESC
LIMIT 1
