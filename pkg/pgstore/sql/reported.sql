-- reported: what a job has last said of itself. $1 id. Primary key. No locks.
SELECT r.checkpoint, r.percent, r.note, r.at, r.fence FROM weir.reports AS r WHERE r.job_id = $1
