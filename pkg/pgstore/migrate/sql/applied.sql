-- applied: when version :version was applied, if it was, in µs since 1970. Primary key. No locks.
SELECT (extract(epoch FROM applied_at) * 1000000)::bigint
FROM weir.migrations
WHERE version = :version
