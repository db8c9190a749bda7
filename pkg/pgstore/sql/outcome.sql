-- outcome: how jobs ended, for those that have. $1 ids. No locks; indexes on id, each partition that retention leaves.
SELECT o.id, 'completed' AS state, o.fence, o.session, '' AS kind, o.result, NULL AS error
FROM weir.outcomes AS o WHERE o.id = ANY ($1::uuid[])
UNION ALL
SELECT d.id, CASE d.state WHEN 1 THEN 'discarded' WHEN 2 THEN 'cancelled' ELSE 'expired' END, d.fence, d.session, d.kind, NULL, d.error
FROM weir.dead AS d WHERE d.id = ANY ($1::uuid[])
