-- limits: all entries, locks before rates, by key; $1 at most so many. No locks.
SELECT l.key, l.prefix, l.rate, l.slots, coalesce(l.per_ms, 0), l.owner
FROM weir.limits AS l
ORDER BY l.rate, l.key, l.prefix
LIMIT $1
