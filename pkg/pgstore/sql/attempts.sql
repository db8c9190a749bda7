-- attempts: how a job's attempts failed, oldest first. $1 id. No locks; index attempts_job, each partition.
SELECT a.attempt, a.fence, a.outcome, coalesce(a.error, ''), coalesce(a.stack, ''), a.session, a.started_at, a.ended_at
FROM weir.attempts AS a
WHERE a.job_id = $1
ORDER BY a.ended_at, a.fence
