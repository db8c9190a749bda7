-- line_holders: who has each of the locks $1. Primary key of locks. No locks of rows.
SELECT k.key, k.job_id FROM weir.locks AS k WHERE k.key = ANY ($1::text[]) ORDER BY k.key, k.slot
