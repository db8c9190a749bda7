-- counted: how many seconds ago the table counts was filled; NULL if it is empty. No locks.
SELECT extract(epoch FROM statement_timestamp() - max(c.at))::float8 FROM weir.counts AS c
