-- rotate_guards: the constraints of rotate_guard that there are. Returns the parent and the partition of each.
SELECT p.relname::text, regexp_replace(c.conname, '_guard$', '')
FROM pg_constraint AS c
JOIN pg_inherits AS i ON i.inhrelid = c.conrelid
JOIN pg_class AS p ON p.oid = i.inhparent
WHERE i.inhparent IN ('weir.jobs'::regclass, 'weir.outcomes'::regclass, 'weir.dead'::regclass, 'weir.attempts'::regclass)
  AND c.conname LIKE '%\_guard'
ORDER BY 1, 2
