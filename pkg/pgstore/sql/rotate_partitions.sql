-- rotate_partitions: the partitions of the four parents. No arguments. Returns parent, name and size in bytes of each,
-- the default ones too; one that is dropped at this moment has no size.
SELECT p.relname::text, c.relname::text, coalesce(pg_relation_size(c.oid), 0)
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
JOIN pg_class AS p ON p.oid = i.inhparent
WHERE i.inhparent IN ('weir.jobs'::regclass, 'weir.outcomes'::regclass, 'weir.dead'::regclass, 'weir.attempts'::regclass)
ORDER BY 1, 2
