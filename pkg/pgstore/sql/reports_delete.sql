-- reports_delete: $1 jobs and $2 fences, in step, as reports saw them: one that has spoken since then keeps its report.
DELETE FROM weir.reports AS r
USING unnest($1::uuid[], $2::int[]) AS i (id, fence)
WHERE r.job_id = i.id AND r.fence = i.fence
