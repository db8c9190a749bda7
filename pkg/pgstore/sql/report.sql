-- report: what a running job says of itself: a checkpoint for its next attempt, and how far it is. $1 id, $2 fence, $3 session;
-- $4 checkpoint as JSON (NULL: the one before stays), $5 percent and $6 note (NULL: those before stay).
-- Only the current claim may (reportFence): its live row is locked meanwhile, so that nobody gives the job away between the
-- look and the write, and its next attempt reads what the last one wrote. Returns no row if the claim has ended.
WITH mine AS (
  SELECT l.id FROM weir.live AS l
  WHERE l.id = $1 AND l.fence = $2 AND l.session IS NOT DISTINCT FROM $3 FOR NO KEY UPDATE
)
INSERT INTO weir.reports AS r (job_id, fence, at, checkpoint, percent, note)
SELECT m.id, $2, clock_timestamp(), $4::text::json, $5::smallint, $6::text FROM mine AS m
ON CONFLICT (job_id) DO UPDATE SET fence = excluded.fence, at = excluded.at,
  checkpoint = coalesce(excluded.checkpoint, r.checkpoint),
  percent = coalesce(excluded.percent, r.percent), note = CASE WHEN excluded.percent IS NULL THEN r.note ELSE excluded.note END
RETURNING job_id
