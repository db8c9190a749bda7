-- settings: how a migration's transaction runs, whatever the role or the pool has set. First in the transaction.
-- Parameter lock_timeout in ms. Nothing outlives the transaction: nothing leaks through a transaction-pooling PgBouncer.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED; -- after the wait for the lock the snapshot must be a new one
SET LOCAL search_path = pg_catalog;             -- a name that is not qualified must fail here, not in production
SET LOCAL client_min_messages = warning;
SET LOCAL statement_timeout = 0;                -- the caller's context bounds it
SET LOCAL idle_in_transaction_session_timeout = '60s'; -- a starter that has vanished must not hold up the others
SET LOCAL lock_timeout = 0;                     -- waiting for the other starters is no fault
SELECT pg_advisory_xact_lock(hashtextextended('weir.migrations', 0));
SET LOCAL lock_timeout = :lock_timeout          -- but those who enqueue must not stand long behind our wait
