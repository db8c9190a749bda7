-- begin: the same lock that `weir migrate up` takes, so that the two never meet; it ends with the transaction.
-- What cannot have a table's lock within lock_timeout (ms) gives up rather than hold up those who enqueue.
SELECT pg_advisory_xact_lock(hashtextextended('weir.migrations', 0));
SET LOCAL lock_timeout = :lock_timeout
