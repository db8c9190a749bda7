-- admit: decides about candidates, jobs with keys that a claim has seen and not touched: each runs now in this session, is
-- blocked on a lock, waits for a rate, or is left alone. $1 session; $2 ids, $3 a lock of each that Redis says is busy ('':
-- none) and $4 for how many ms a rate has no room (0: it has), in step; $5 queues and $6 kinds served here; $7 slots kept for
-- hand-overs, not used here; $8 how long a reservation lasts in ms.
-- Locks: queue rows with a limit, SKIP LOCKED; then live rows, SKIP LOCKED; then lock rows, by (key, slot). Who waits for a lock
-- row is never waited for by its holder, who has all his live rows by then.
-- Rule G throughout: a statement finds by other tables, the next acts on the rows that this transaction has locked.
-- Returns rows of weir.keyed_v1: 1 jobs, 2 blocked, 3 throttled, 4 left, 5 locks to pass on after the commit (recheck: one of
-- them may have been freed while this statement looked at an older state), 6 holders of the locks that were busy, 10 the end.
CREATE FUNCTION weir.admit_v1(
  p_session uuid, p_ids uuid[], p_refused text[], p_later_ms bigint[], p_queues text[], p_kinds text[], p_take int[], p_reserve_ms bigint
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
  g record; r weir.keyed_v1; x record;
  v_ids uuid[]; v_bare uuid[]; v_owners uuid[]; v_queues text[]; v_mode smallint; v_lost uuid[] := '{}'; v_left uuid[] := '{}'; v_full uuid[] := '{}';
  v_late uuid[] := '{}'; v_more uuid[]; v_one uuid; v_had int; v_room int; v_plain boolean;
  -- An element for each job and lock, in step.
  w_id uuid[]; w_line timestamptz[]; w_fence int[]; w_key text[]; w_own int[]; w_n bigint[]; w_alone boolean[]; w_queue text[]; w_refused boolean[];
  v_run uuid[]; v_blocked uuid[]; v_on text[]; v_freed text[] := '{}';
BEGIN
  g := weir.gate_v1(p_session, p_queues, p_kinds);
  IF NOT g.alive THEN
    RAISE EXCEPTION 'session is not live' USING ERRCODE = 'WE002';
  END IF;
  -- state + 0: no index but the primary key can serve it, whatever the planner believes.
  SELECT array_agg(y.id) FILTER (WHERE u.n = 1 OR u.n IS NULL), array_agg(y.id) FILTER (WHERE u.n IS NULL), array_agg(DISTINCT y.queue), max(y.mode),
    array_agg(y.id), array_agg(y.line_at), array_agg(y.fence), array_agg(u.key), array_agg(coalesce(u.own, 1)), array_agg(u.n),
    array_agg(cardinality(y.keys) = 1), array_agg(y.queue), array_agg(y.refused = u.key)
  FROM (
    SELECT l.id, l.line_at, l.fence, l.keys, l.key_limits, l.queue, l.mode, i.refused
    FROM unnest(p_ids, p_refused) AS i (id, refused) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
    WHERE l.state + 0 = 0 AND l.flags & 1 = 1 AND l.ready_at <= statement_timestamp() AND l.queue = ANY (g.queues)
      AND l.kind = ANY (g.kinds) AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())
    FOR UPDATE OF l SKIP LOCKED) AS y
    LEFT JOIN LATERAL unnest(y.keys, y.key_limits) WITH ORDINALITY AS u (key, own, n) ON true
  INTO v_ids, v_bare, v_queues, v_mode, w_id, w_line, w_fence, w_key, w_own, w_n, w_alone, w_queue, w_refused;
  v_ids := coalesce(v_ids, '{}');
  v_had := cardinality(v_ids);
  IF v_had < cardinality(p_ids) THEN -- who has them may be about to let them start
    v_lost := ARRAY(
      SELECT l.id FROM unnest(p_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
      WHERE l.id <> ALL (v_ids) AND l.state + 0 = 0 AND l.flags & 1 = 1 AND l.ready_at <= statement_timestamp()
        AND l.queue = ANY (g.queues) AND l.kind = ANY (g.kinds) AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp()));
  END IF;
  IF 0 < ANY (p_later_ms) THEN
    WITH late AS (
      UPDATE weir.live AS l SET ready_at = clock_timestamp() + i.ms * interval '1 ms'
      FROM unnest(p_ids, p_later_ms) AS i (id, ms)
      WHERE i.ms > 0 AND l.id = ANY (ARRAY[i.id]) AND l.id = ANY (v_ids)
      RETURNING l.id, l.fence, l.keys
    ), unlocked AS (
      DELETE FROM weir.locks AS k USING late AS t WHERE t.keys IS NOT NULL AND k.job_id = ANY (ARRAY[t.id]) AND k.fence = t.fence
      RETURNING k.key
    )
    SELECT ARRAY(SELECT t.id FROM late AS t), ARRAY(SELECT u.key FROM unlocked AS u) INTO v_late, v_freed;
    v_ids := ARRAY(SELECT i FROM unnest(v_ids) AS i WHERE i <> ALL (v_late));
  END IF;
  IF cardinality(g.limited) > 0 THEN
    FOR x IN
      SELECT DISTINCT l.queue FROM unnest(v_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
      WHERE l.queue = ANY (g.limited) ORDER BY 1
    LOOP
      v_room := coalesce((weir.queue_room_v1(x.queue)).room, 0);
      v_full := v_full || ARRAY(
        SELECT l.id FROM unnest(p_ids) WITH ORDINALITY AS i (id, n) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
        WHERE l.id = ANY (v_ids) AND l.queue = x.queue ORDER BY i.n OFFSET v_room);
    END LOOP;
    v_ids := ARRAY(SELECT i FROM unnest(v_ids) AS i WHERE i <> ALL (v_full));
  END IF;
  -- Mostly each job has one lock, free, and is the only one that has it: nobody is before it, and nothing has to be counted.
  v_plain := v_had = cardinality(p_ids) AND v_had = cardinality(v_ids) AND v_bare IS NULL AND cardinality(w_id) = v_had
    AND NOT g.entries AND true = ALL (w_alone) AND NOT EXISTS (SELECT FROM weir.waits) AND NOT EXISTS (
      SELECT FROM unnest(w_key, w_refused) AS w (key, refused)
      WHERE w.refused OR (SELECT k.slot FROM weir.locks AS k WHERE k.key = w.key LIMIT 1) IS NOT NULL -- scalars: they cannot become joins
        OR (SELECT b.state FROM weir.live AS b WHERE b.state = 2 AND b.keys[1] = w.key LIMIT 1) IS NOT NULL
        OR (SELECT b.state FROM weir.live AS b WHERE b.state = 0 AND b.keys IS NOT NULL AND b.keys[1] = w.key OFFSET 1 LIMIT 1) IS NOT NULL);
  IF NOT v_plain THEN
    v_owners := ARRAY(SELECT k.job_id FROM unnest(v_ids) AS i (id) JOIN weir.locks AS k ON k.job_id = ANY (ARRAY[i.id])); -- they have their place
    -- lineCheck: an older due job of a lock that this process could take too and that is not in its hands: another dispatcher
    -- has read it, or it lies before the cursor, released a moment ago. It comes first, and the newer ones of its lock are left.
    -- Where it can be had it is taken in the place of one of them: else a process with one slot would read the newer one for ever.
    FOR x IN
      SELECT k.key, o.id, o.line_at, o.queue
      FROM (
        SELECT w.key, count(*) AS n, max(w.line_at) AS last
        FROM unnest(w_id, w_line, w_key) AS w (id, line_at, key) WHERE w.key IS NOT NULL AND w.id = ANY (v_ids) AND w.id <> ALL (v_owners)
        GROUP BY w.key) AS k
      CROSS JOIN LATERAL (
        SELECT y.id, y.line_at, y.queue FROM (
          SELECT l.id, l.line_at, l.queue FROM weir.live AS l
          WHERE l.state = 0 AND l.keys IS NOT NULL AND l.keys[1] = k.key AND l.line_at <= k.last AND l.ready_at <= statement_timestamp()
            AND l.queue = ANY (v_queues) AND l.kind = ANY (g.kinds) AND l.crashes < 2 AND l.mode <= v_mode AND l.id <> ALL (v_full) AND l.id <> ALL (v_owners)
            AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())
          ORDER BY l.line_at, l.id LIMIT k.n + 1) AS y
        WHERE y.id <> ALL (v_ids)
        ORDER BY y.line_at, y.id LIMIT 1) AS o
      ORDER BY o.line_at, o.id
    LOOP
      v_more := ARRAY(
        SELECT l.id FROM unnest(v_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
        WHERE x.key = ANY (l.keys) AND (l.line_at, l.id) > (x.line_at, x.id) AND l.id <> ALL (v_owners));
      CONTINUE WHEN v_more = '{}' OR x.id = ANY (v_ids);
      v_one := NULL;
      IF EXISTS (SELECT FROM unnest(v_more) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id]) WHERE l.queue = x.queue AND l.id <> ALL (v_left)) THEN
        SELECT l.id FROM weir.live AS l
        WHERE l.id = x.id AND l.state + 0 = 0 AND l.ready_at <= statement_timestamp()
          AND l.rates IS NULL -- nobody has asked for it; its turn comes when it is read
        FOR UPDATE SKIP LOCKED INTO v_one;
      END IF;
      IF v_one IS NULL THEN
        v_lost := v_lost || x.id;
      ELSE
        v_ids := v_ids || v_one;
      END IF;
      v_left := v_left || v_more;
    END LOOP;
    -- lostKeeps: what could not be had, and what is left, keeps the newer ones of its locks back, through all their locks.
    WHILE cardinality(v_lost) + cardinality(v_left) > 0 LOOP
      v_more := ARRAY(
        SELECT l.id FROM unnest(v_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
        WHERE l.id <> ALL (v_left) AND l.id <> ALL (v_owners)
          AND EXISTS (SELECT FROM unnest(v_lost || v_left) AS o (id) JOIN weir.live AS d ON d.id = ANY (ARRAY[o.id])
            WHERE d.keys && l.keys AND (d.line_at, d.id) < (l.line_at, l.id)));
      EXIT WHEN v_more = '{}';
      v_left := v_left || v_more;
    END LOOP;
  END IF;
  IF v_left <> '{}' OR cardinality(v_ids) <> v_had OR v_bare IS NOT NULL THEN
    v_ids := ARRAY(SELECT i FROM unnest(v_ids) AS i WHERE i <> ALL (v_left));
    SELECT array_agg(l.id), array_agg(l.line_at), array_agg(l.fence), array_agg(u.key), array_agg(coalesce(u.own, 1)), array_agg(u.n),
      array_agg(coalesce(t.refused = u.key, false))
    FROM unnest(v_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
      LEFT JOIN unnest(p_ids, p_refused) AS t (id, refused) ON t.id = i.id
      CROSS JOIN LATERAL unnest(l.keys, l.key_limits) WITH ORDINALITY AS u (key, own, n)
    INTO w_id, w_line, w_fence, w_key, w_own, w_n, w_refused;
  END IF;
  IF w_id IS NOT NULL THEN
    WITH decided AS (
      SELECT k.job_id, k.got, k.busy, k.gave_up
      FROM weir.lock_keys_v1(w_id, w_line, w_fence, w_key, w_own, w_n, w_refused, array_fill(1, ARRAY[cardinality(w_id)]), false, p_reserve_ms, v_plain) AS k
    )
    SELECT array_agg(d.job_id) FILTER (WHERE d.got), array_agg(d.job_id) FILTER (WHERE NOT d.got), array_agg(d.busy) FILTER (WHERE NOT d.got),
      v_freed || ARRAY(SELECT unnest(e.gave_up) FROM decided AS e WHERE e.gave_up IS NOT NULL)
    FROM decided AS d INTO v_run, v_blocked, v_on, v_freed;
  END IF;
  v_run := v_run || ARRAY(SELECT i FROM unnest(v_bare) AS i WHERE i = ANY (v_ids)); -- rates alone need no lock
  IF v_run <> '{}' THEN
    RETURN QUERY
    WITH taken AS (
      UPDATE weir.live AS l
      SET state = 1, session = p_session, attempt = l.attempt + 1, fence = l.fence + 1, claimed_at = clock_timestamp()
      FROM unnest(v_run) AS i (id) WHERE l.id = ANY (ARRAY[i.id])
      RETURNING l.id, l.kind, l.queue, l.priority, l.attempt, l.max_attempts, l.crashes, l.fence, l.ready_at, l.claimed_at, l.expires_at,
        l.keys, l.key_limits, l.rates, l.mode
    )
    SELECT 1::smallint, t.id, t.kind, t.queue, t.priority, t.attempt, t.max_attempts, t.crashes, t.fence, t.ready_at, t.claimed_at,
      t.expires_at, j.id IS NULL, j.payload, j.enqueued_at, j.scheduled_at, j.timeout_ms, j.backoff::text, j.tags, j.metadata,
      j.trace::text, j.parent_id, t.keys, t.key_limits, t.rates, t.mode, NULL::text, NULL::uuid, NULL::uuid[], NULL::boolean, NULL::timestamptz
    FROM taken AS t LEFT JOIN weir.jobs AS j ON j.id = ANY (ARRAY[t.id]);
    IF cardinality(g.limited) > 0 THEN
      FOR x IN
        SELECT l.queue, count(*)::int AS n FROM unnest(v_run) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
        WHERE l.queue = ANY (g.limited) GROUP BY 1
      LOOP
        PERFORM weir.queue_granted_v1(x.queue, x.n);
      END LOOP;
    END IF;
  END IF;
  IF v_blocked IS NOT NULL THEN
    UPDATE weir.live AS l SET state = 2, blocked_on = i.key
    FROM unnest(v_blocked, v_on) AS i (id, key) WHERE l.id = ANY (ARRAY[i.id]);
    INSERT INTO weir.waits (key, line_at, job_id)
    SELECT u.key, l.line_at, l.id
    FROM unnest(v_blocked) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id]) CROSS JOIN LATERAL unnest(l.keys[2:]) AS u (key)
    ORDER BY 1, 2, 3
    ON CONFLICT DO NOTHING;
    r.what := 2; r.others := v_blocked; r.keys := v_on;
    RETURN NEXT r;
    -- Who waits for a lock alone that is busy for one of its line is blocked along: a hundred thousand cost a hundred statements.
    FOR x IN
      SELECT DISTINCT ON (i.key) i.key, coalesce(l.key_limits[1], 1) AS own
      FROM unnest(v_blocked, v_on) AS i (id, key) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
      WHERE cardinality(l.keys) = 1
      ORDER BY i.key, 2 DESC
    LOOP
      r.others := weir.block_line_v1(x.key, x.own, g.queues, g.kinds);
      r.keys := array_fill(x.key, ARRAY[cardinality(r.others)]);
      RETURN NEXT r;
    END LOOP;
    r := NULL; r.what := 6;
    FOR r.key, r.others IN SELECT k, ARRAY(SELECT w.job_id FROM weir.locks AS w WHERE w.key = k) FROM (SELECT DISTINCT unnest(v_on) AS k) AS b LOOP
      RETURN NEXT r;
    END LOOP;
  END IF;
  r := NULL; r.what := 3; r.others := v_late;
  RETURN NEXT r;
  IF cardinality(v_run) < cardinality(p_ids) OR v_left <> '{}' THEN
    r := NULL; r.what := 4;
    FOR r.id, r.queue, r.priority, r.ready_at IN
      SELECT DISTINCT l.id, l.queue, l.priority, l.ready_at
      FROM unnest(p_ids || v_lost || v_left) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
      WHERE l.state + 0 = 0 AND l.id <> ALL (v_late)
    LOOP
      RETURN NEXT r;
    END LOOP;
    r := NULL; r.what := 5; r.keys := ARRAY(SELECT DISTINCT k FROM unnest(v_on || v_freed) AS k);
    RETURN NEXT r;
  END IF;
  r := NULL; r.what := 10; r.db_now := clock_timestamp();
  RETURN NEXT r;
END
$$;
