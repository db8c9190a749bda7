-- live_workers: how many workers share what each may do by itself while Redis is away. Reads sessions.
SELECT count(*) FROM weir.sessions WHERE role = 'worker' AND dead_at IS NULL AND lease_until > statement_timestamp();
