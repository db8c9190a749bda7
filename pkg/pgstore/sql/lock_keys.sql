-- lock_keys: decides which of some jobs get all their locks, and writes the lock rows: all of a job or none. The arrays run in
-- step, an element for each job and lock: $1 its id, $2 place in line, $3 fence, $4 a lock, $5 the job's number for it, $6 which of
-- its locks it is, $7 whether Redis says that it is busy, $8 1 for a job that is about to run, 0
-- for a reservation; $9 whether the jobs are blocked, $10 how long a reservation lasts in ms; $11 whether the caller has seen that
-- each is alone with its only lock, which is free. Their live rows are locked.
-- Returns each job, whether it got its locks, and else the first that it did not get and those that it had and gives up: who is
-- blocked holds nothing.
-- may(j, k): j owns a row of k and the rows are no more than the limit (ownRow, ownRowLimit); or all rows (limitCount), and
-- those who wait before it, blocked (olderBlocked) or in this very batch (batchOrder: one that is refused keeps its
-- place), leave room. Redis is asked only where no row is owned: a reservation is not yet known there.
-- Only slots that the snapshot shows free are written, so that an open FinishTx, which is deleting its row, is never waited
-- for; in the order of (key, slot), one statement a transaction, so that two that meet do not deadlock. Who loses a slot to a
-- quicker one is refused although another may be free: the re-check looks again. Nobody waits for a live row after this.
CREATE FUNCTION weir.lock_keys_v1(
  p_id uuid[], p_line timestamptz[], p_fence int[], p_key text[], p_own int[], p_n bigint[], p_refused boolean[],
  p_run int[], p_blocked boolean, p_reserve_ms bigint, p_plain boolean
) RETURNS TABLE (job_id uuid, got boolean, busy text, gave_up text[])
LANGUAGE plpgsql VOLATILE ROWS 100
AS $$
#variable_conflict use_column
DECLARE
  v_entries boolean := EXISTS (SELECT FROM weir.limits);
  v_waits boolean := EXISTS (SELECT FROM weir.waits);
  v_ids uuid[]; v_got boolean[]; v_busy text[]; v_owners uuid[]; v_failed uuid[];
BEGIN
  IF p_plain THEN -- nothing has to be counted
    RETURN QUERY
    WITH put AS (
      INSERT INTO weir.locks AS k (key, slot, job_id, fence, until)
      SELECT w.key, 0, w.id, w.fence + w.run, CASE WHEN w.run = 0 THEN clock_timestamp() + p_reserve_ms * interval '1 ms' END
      FROM unnest(p_id, p_fence, p_key, p_run) AS w (id, fence, key, run)
      ORDER BY w.key
      ON CONFLICT DO NOTHING
      RETURNING k.job_id
    )
    SELECT w.id, p.job_id IS NOT NULL, CASE WHEN p.job_id IS NULL THEN w.key END, NULL::text[]
    FROM unnest(p_id, p_key) AS w (id, key) LEFT JOIN put AS p ON p.job_id = w.id;
    RETURN;
  END IF;
  WITH want AS (
    SELECT w.id, w.line_at, w.fence, w.key, w.n, w.refused, w.run,
      CASE WHEN v_entries THEN weir.limit_of(w.key, w.own) ELSE w.own END AS most,
      k.rows, coalesce(k.owned, false) AS owned
    FROM unnest(p_id, p_line, p_fence, p_key, p_own, p_n, p_refused, p_run) AS w (id, line_at, fence, key, own, n, refused, run)
      CROSS JOIN LATERAL (
        SELECT count(*)::int AS rows, bool_or(x.job_id = w.id AND x.fence = w.fence) AS owned
        FROM weir.locks AS x WHERE x.key = w.key) AS k
  ), placed AS (
    -- A job that is blocked stands in the line itself: ahead_v1 counts it for those behind it.
    SELECT w.*, count(*) FILTER (WHERE NOT w.owned AND NOT p_blocked)
      OVER (PARTITION BY w.key ORDER BY w.line_at, w.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)::int AS before
    FROM want AS w
  ), judged AS (
    SELECT p.*, CASE
        WHEN p.owned THEN p.rows <= p.most
        WHEN p.refused THEN false
        WHEN p.rows + p.before >= p.most THEN false
        WHEN NOT v_waits AND (SELECT b.state FROM weir.live AS b WHERE b.state = 2 AND b.keys[1] = p.key LIMIT 1) IS NULL THEN true
        ELSE p.rows + p.before + weir.ahead_v1(p.key, p.line_at, p.id, p.most) < p.most
      END AS may
    FROM placed AS p
  ), whole AS (
    SELECT j.*, bool_and(j.may) OVER (PARTITION BY j.id) AS all_may FROM judged AS j
  ), granted AS (
    SELECT j.id, j.key, j.fence + j.run AS fence, j.run, j.rows,
      row_number() OVER (PARTITION BY j.key ORDER BY j.line_at, j.id) AS m, count(*) OVER (PARTITION BY j.key) AS need
    FROM whole AS j
    WHERE NOT j.owned AND j.all_may
  ), free AS (
    SELECT g.key, s.slot, row_number() OVER (PARTITION BY g.key ORDER BY s.slot) AS m
    FROM (SELECT DISTINCT x.key, x.rows, x.need FROM granted AS x) AS g
      CROSS JOIN LATERAL generate_series(0, g.rows + g.need::int - 1) AS s (slot)
    WHERE (SELECT k.slot FROM weir.locks AS k WHERE k.key = g.key AND k.slot = s.slot) IS NULL
  ), put AS (
    INSERT INTO weir.locks AS k (key, slot, job_id, fence, until)
    SELECT g.key, f.slot, g.id, g.fence, CASE WHEN g.run = 0 THEN clock_timestamp() + p_reserve_ms * interval '1 ms' END
    FROM granted AS g JOIN free AS f ON f.key = g.key AND f.m = g.m
    ORDER BY g.key, f.slot
    ON CONFLICT DO NOTHING
    RETURNING k.job_id, k.key
  ), result AS (
    -- Without a row of its own in put: it had none to put (all_may), or lost it.
    SELECT w.id, w.n, w.key, w.run, w.owned, w.may AND (w.owned OR NOT w.all_may OR p.key IS NOT NULL) AS ok, w.all_may
    FROM whole AS w LEFT JOIN put AS p ON p.job_id = w.id AND p.key = w.key
  ), said AS (
    SELECT r.id, bool_and(r.ok) AS got, (array_agg(r.key ORDER BY r.n) FILTER (WHERE NOT r.ok))[1] AS busy,
      bool_or(r.owned AND r.run = 1) AS owner, bool_or(r.owned OR r.all_may) AS some
    FROM result AS r GROUP BY r.id
  )
  SELECT array_agg(x.id), array_agg(x.got), array_agg(x.busy), array_agg(x.id) FILTER (WHERE x.got AND x.owner),
    array_agg(x.id) FILTER (WHERE NOT x.got AND x.some)
  FROM said AS x INTO v_ids, v_got, v_busy, v_owners, v_failed;
  IF v_owners IS NOT NULL THEN
    UPDATE weir.locks AS k SET fence = i.fence + 1, until = NULL
    FROM (SELECT DISTINCT w.id, w.fence FROM unnest(p_id, p_fence) AS w (id, fence) WHERE w.id = ANY (v_owners)) AS i
    WHERE k.job_id = ANY (ARRAY[i.id]) AND k.fence = i.fence;
  END IF;
  IF v_failed IS NOT NULL THEN -- what it owned, and of several locks those that it got
    RETURN QUERY
    WITH gone AS (DELETE FROM weir.locks AS k WHERE k.job_id = ANY (v_failed) RETURNING k.job_id, k.key)
    SELECT i.id, i.got, i.busy, (SELECT array_agg(g.key) FROM gone AS g WHERE g.job_id = i.id)
    FROM unnest(v_ids, v_got, v_busy) AS i (id, got, busy);
  ELSE
    RETURN QUERY SELECT i.id, i.got, i.busy, NULL::text[] FROM unnest(v_ids, v_got, v_busy) AS i (id, got, busy);
  END IF;
END
$$;
