-- list: the versions applied, the latest first, and row 0. Times in µs since 1970: a date as text follows the session's
-- DateStyle. No locks.
SELECT version, (extract(epoch FROM applied_at) * 1000000)::bigint, environment
FROM weir.migrations
ORDER BY version DESC
