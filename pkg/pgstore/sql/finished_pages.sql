-- finished_pages: pages of completed and of other ended jobs, all partitions together. No locks, no table is read.
SELECT coalesce(sum(pg_relation_size(i.inhrelid)) FILTER (WHERE i.inhparent = 'weir.outcomes'::regclass), 0)::bigint / b.size,
  coalesce(sum(pg_relation_size(i.inhrelid)) FILTER (WHERE i.inhparent = 'weir.dead'::regclass), 0)::bigint / b.size
FROM (SELECT current_setting('block_size')::bigint AS size) AS b
LEFT JOIN pg_inherits AS i ON i.inhparent IN ('weir.outcomes'::regclass, 'weir.dead'::regclass)
GROUP BY b.size
