-- id_range: ids of jobs between $1 and $2, both included, at most $3. No locks.
SELECT s.id FROM weir.job_status AS s WHERE s.id BETWEEN $1 AND $2 ORDER BY s.id LIMIT $3
