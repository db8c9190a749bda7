-- snapshot: which transactions run now, for the beginning of a poll. No locks.
SELECT pg_current_snapshot()::text
