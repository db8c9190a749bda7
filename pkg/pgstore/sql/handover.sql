-- finish_keyed: jobs with keys that completed, and the hand-over of their locks in the same transaction. $1 session; $2 ids,
-- sorted, $3 their fences and $4 results (NULL: none has one), in step; $5 queues and $6 kinds served here; $7 slots kept here for
-- hand-overs, in step with $5; $8 how long a reservation lasts in ms.
-- finishFence as in finish. A freed row goes to the first of its lock's line, or to nobody (oldestOnly): one that waits for
-- several locks, that another has locked, or before which such a one waits, is left to pass, and the next row looks behind it.
-- A row is handed on in its place: a limit that is kept stays kept, and where the rows are too many it goes (limitCount).
-- Most locks have no line: then it is one look for each. A loop, since small statements cost a single finish less than one.
-- A unique key goes as in finish. Lock rows are those of the job and the fence that were deleted (lockDelFenced).
-- Locks the live rows in the order of ids, then waiters SKIP LOCKED, then lock rows, of which it waits for none.
-- Returns rows of weir.keyed_v1: 8 accepted, 1 jobs that run now, 7 reservations, 9 locks that changed hands, 11 locks that are
-- free now, to pass on after the commit (postPass: one that is being blocked at this moment is not seen here), 10 the end.
CREATE FUNCTION weir.finish_keyed_v1(
  p_session uuid, p_ids uuid[], p_fences int[], p_results text[], p_queues text[], p_kinds text[], p_take int[], p_reserve_ms bigint
) RETURNS SETOF weir.keyed_v1
LANGUAGE plpgsql VOLATILE ROWS 100
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET enable_material = off
SET enable_memoize = off
AS $$
#variable_conflict use_column
DECLARE
  r weir.keyed_v1; g record; k record; w record;
  v_done uuid[]; v_fences int[]; v_ids uuid[] := '{}'; v_run boolean; v_at int; v_kept int := 0; v_nobody int := 0; v_last text := '';
BEGIN
  WITH gone AS (
    DELETE FROM weir.live AS l
    USING unnest(p_ids, p_fences, p_results) AS i (id, fence, result)
    WHERE l.id = ANY (ARRAY[i.id]) AND l.fence = i.fence AND l.session IS NOT DISTINCT FROM p_session
    RETURNING l.id, l.queue, l.fence, l.attempt, l.claimed_at, l.flags, i.result
  ), written AS (
    INSERT INTO weir.outcomes (finished_at, claimed_at, fence, attempt, id, session, queue, result)
    SELECT clock_timestamp(), x.claimed_at, x.fence, x.attempt, x.id, p_session, x.queue, x.result::json
    FROM gone AS x
  ), unkeyed AS (
    DELETE FROM weir.uniques AS u USING gone AS x
    WHERE x.flags & 2 <> 0 AND u.job_id = ANY (ARRAY[x.id]) AND (u.until IS NULL OR u.until <= statement_timestamp())
  )
  SELECT array_agg(x.id), array_agg(x.fence) FROM gone AS x INTO v_done, v_fences;
  FOR k IN
    SELECT h.key, h.slot, h.job_id, count(*) OVER (PARTITION BY h.key) AS freed,
      (SELECT count(*) FROM weir.locks AS o WHERE o.key = h.key) AS rows
    FROM unnest(v_done, v_fences) AS d (id, fence) JOIN weir.locks AS h ON h.job_id = ANY (ARRAY[d.id]) AND h.fence = d.fence
    WHERE (SELECT b.state FROM weir.live AS b WHERE b.state = 2 AND b.keys[1] = h.key LIMIT 1) IS NOT NULL -- a scalar: it cannot become a join
    ORDER BY h.key, h.slot
  LOOP
    IF g IS NULL THEN
      g := weir.gate_v1(p_session, p_queues, p_kinds);
    END IF;
    IF k.key <> v_last THEN
      v_last := k.key; v_kept := 0; v_nobody := 0;
    END IF;
    SELECT b.id, b.queue, b.kind, b.priority, b.rates, b.crashes, b.mode, b.line_at, b.fence, cardinality(b.keys) AS locks, coalesce(b.key_limits[1], 1) AS own
    FROM weir.live AS b
    WHERE b.state = 2 AND b.keys[1] = k.key AND (b.expires_at IS NULL OR b.expires_at > statement_timestamp())
      AND (b.queue = ANY (g.queues) AND b.kind = ANY (g.kinds) OR weir.runnable_v1(b.queue, b.kind))
    ORDER BY b.line_at, b.id OFFSET v_nobody LIMIT 1
    INTO w;
    IF NOT FOUND OR w.locks > 1
      OR k.rows - k.freed + v_kept + 1 > (CASE WHEN g.entries THEN weir.limit_of(k.key, w.own) ELSE w.own END)
      OR EXISTS (SELECT FROM weir.waits AS o WHERE o.key = k.key AND (o.line_at, o.job_id) < (w.line_at, w.id)) THEN
      v_nobody := v_nobody + 1;
      CONTINUE;
    END IF;
    PERFORM FROM weir.live AS l WHERE l.id = w.id AND l.state + 0 = 2 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      v_nobody := v_nobody + 1;
      CONTINUE;
    END IF;
    v_kept := v_kept + 1;
    v_at := array_position(p_queues, w.queue);
    v_run := coalesce(p_take[v_at] > 0, false)
      AND weir.take_here_v1(g.alive, g.queues, g.kinds, g.limited, w.queue, w.kind, w.priority, w.rates, w.crashes, w.mode);
    UPDATE weir.locks AS o
    SET job_id = w.id, fence = w.fence + v_run::int, until = CASE WHEN NOT v_run THEN clock_timestamp() + p_reserve_ms * interval '1 ms' END
    WHERE o.key = k.key AND o.slot = k.slot;
    UPDATE weir.live AS l
    SET state = v_run::int, session = CASE WHEN v_run THEN p_session END, attempt = l.attempt + v_run::int, fence = l.fence + v_run::int,
      claimed_at = CASE WHEN v_run THEN clock_timestamp() END, blocked_on = NULL,
      ready_at = CASE WHEN v_run THEN l.ready_at ELSE clock_timestamp() END -- fresh: cursors have passed the old one
    WHERE l.id = w.id;
    r := NULL; r.what := 9; r.key := k.key; r.other := k.job_id; r.id := w.id;
    RETURN NEXT r;
    IF v_run THEN
      p_take[v_at] := p_take[v_at] - 1;
      v_ids := v_ids || w.id;
    ELSE
      r := NULL; r.what := 7; r.id := w.id; r.kind := w.kind; r.queue := w.queue; r.ready_at := clock_timestamp();
      RETURN NEXT r;
    END IF;
  END LOOP;
  r := NULL; r.what := 8; r.others := v_done;
  RETURN NEXT r;
  r.what := 11;
  WITH freed AS (
    DELETE FROM weir.locks AS h USING unnest(v_done, v_fences) AS d (id, fence)
    WHERE h.job_id = ANY (ARRAY[d.id]) AND h.fence = d.fence
    RETURNING h.key, h.job_id
  )
  SELECT array_agg(f.key), array_agg(f.job_id) FROM freed AS f INTO r.keys, r.others;
  RETURN NEXT r;
  IF v_ids <> '{}' THEN
    RETURN QUERY SELECT * FROM weir.taken_v1(v_ids);
  END IF;
  r := NULL; r.what := 10; r.db_now := clock_timestamp();
  RETURN NEXT r;
END
$$;
