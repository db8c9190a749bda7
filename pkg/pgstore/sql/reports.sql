-- reports: those of jobs that have ended and need them no more. $1 age in ms of the last report, $2 the least job_id after which to
-- look, $3 most rows looked at. A dead job keeps its own: it may be retried by hand, and goes on from there. No locks; primary
-- key. What is found here is deleted in the next statement, by exact values (rule G). Returns all rows looked at, in order.
SELECT r.job_id, r.fence,
  r.at < statement_timestamp() - $1 * interval '1 ms'
    AND NOT EXISTS (SELECT FROM weir.live AS l WHERE l.id = r.job_id)
    AND NOT EXISTS (SELECT FROM weir.dead AS d WHERE d.id = r.job_id)
FROM weir.reports AS r
WHERE r.job_id > $2
ORDER BY r.job_id LIMIT $3
