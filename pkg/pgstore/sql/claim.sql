-- claim: take due jobs for a session, all its queues in one call, by queue, priority, ready_at and id.
-- $1 session; $2 queues and $3 their free slots, in step; $4 kinds that this process knows; $5, $6 where each scan
-- starts: (ready_at, id) for queue q (from 1) and priority p at (q-1)*9+p; $7 whether a job that killed two
-- processes may be taken (one at a time: its neighbours must not die with it a third time); $8 most bytes of payload;
-- $9 whether this is a poll, which also returns what the watermark rule needs; $10 most jobs of all queues together;
-- $11 whether next_at is wanted; $12 how many of each kind may be taken, in step with $4, -1 for any number (NULL: any of
-- all). What its kind has no room for stays where it is, in front of what comes later: it is locked and not touched;
-- $13 whether to claim though many others are at it.
-- At most eight claims of a queue run at once, by transaction-level advisory locks that are only tried: each passes what the
-- others have locked or just taken, so that sixty-four at once do less than four. Who gets no turn leaves the queue alone and
-- comes back a little later (contended); no one waits, and $13 is for a queue whose turns are all held by the frozen.
-- Locks the rows taken, SKIP LOCKED. Index live_ready, one range a queue and priority.
-- Returns the jobs in no order, then one row with id NULL: db_now, next_at (the next future ready_at, only if
-- nothing was cut), scans (0 not made, 1 complete, 2 cut, in step with $5), and for a poll snap, xid and held.
CREATE FUNCTION weir.claim_v1(
  p_session uuid, p_queues text[], p_slots int[], p_kinds text[], p_starts timestamptz[], p_start_ids uuid[],
  p_suspect boolean, p_max_bytes bigint, p_poll boolean, p_total int, p_next boolean, p_rooms int[], p_force boolean
) RETURNS TABLE (
  id uuid, kind text, queue text, priority smallint, attempt int, max_attempts int, crashes smallint, fence int,
  ready_at timestamptz, claimed_at timestamptz, expires_at timestamptz, missing boolean, payload json,
  enqueued_at timestamptz, scheduled_at timestamptz, timeout_ms bigint, backoff text, tags text[], metadata json,
  trace text, parent_id uuid,
  db_now timestamptz, next_at timestamptz, scans smallint[], snap text, xid text, held timestamptz[], contended boolean
)
LANGUAGE plpgsql VOLATILE ROWS 100
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_material = off
SET enable_memoize = off
AS $$
#variable_conflict use_column
DECLARE
  v_alive boolean; v_paused text[]; v_kinds text[];
  v_tids tid[] := '{}'; v_found tid[]; v_sizes int[]; v_of text[]; v_kept int[];
  v_bytes bigint := 0; v_take int; v_left int; v_at int; v_cut boolean := false; v_snap text; v_xid text;
  v_scans smallint[] := array_fill(0::smallint, ARRAY[9 * cardinality(p_queues)]);
  v_held timestamptz[]; v_next timestamptz; v_hits bigint[]; v_one int; v_turn boolean; v_any boolean := false;
BEGIN
  -- A session that was given away claims nothing. Should the mark commit a moment later, the sweeper's next round
  -- finds these rows (rescan).
  SELECT s.dead_at IS NULL,
    ARRAY(SELECT q.name FROM weir.queues AS q WHERE q.paused_at IS NOT NULL AND q.name = ANY (p_queues)),
    ARRAY(SELECT k.name FROM weir.kinds AS k WHERE k.paused_at IS NOT NULL AND k.name = ANY (p_kinds))
  INTO v_alive, v_paused, v_kinds
  FROM weir.sessions AS s WHERE s.id = p_session;
  IF v_alive IS NOT TRUE THEN
    RAISE EXCEPTION 'session is not live' USING ERRCODE = 'WE002';
  END IF;
  IF cardinality(v_kinds) > 0 THEN
    v_kinds := ARRAY(SELECT k FROM unnest(p_kinds) AS k WHERE k <> ALL (v_kinds));
  ELSE
    v_kinds := p_kinds;
  END IF;
  IF p_poll THEN
    -- Before the scans: what is open now may be missed by them, what they see beyond it costs nothing.
    SELECT pg_current_snapshot()::text, pg_current_xact_id()::text INTO v_snap, v_xid;
  END IF;
  p_suspect := p_suspect AND EXISTS (SELECT FROM weir.live AS c WHERE c.state = 0 AND c.crashes >= 2);
  -- Which ranges have anything to take: one statement for all of them, since most are empty most of the time. (A scalar
  -- subquery: it cannot become a join.)
  SELECT array_agg((q.n - 1) * 9 + p) FROM unnest(p_queues) WITH ORDINALITY AS q (name, n), generate_series(1, 9) AS p
  WHERE p_start_ids[(q.n - 1) * 9 + p] <> '00000000-0000-0000-0000-000000000000' -- the last scan was cut: no need to look
    OR (SELECT c.priority FROM weir.live AS c
    WHERE c.state = 0 AND c.queue = q.name AND c.priority = p
      AND (c.ready_at, c.id) >= (p_starts[(q.n - 1) * 9 + p], p_start_ids[(q.n - 1) * 9 + p])
      AND c.ready_at <= statement_timestamp()
      AND c.kind = ANY (v_kinds) AND c.crashes < 2
      AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
    LIMIT 1) IS NOT NULL
  INTO v_hits;
  FOR q IN 1 .. cardinality(p_queues) LOOP
    v_left := least(p_slots[q], p_total - cardinality(v_tids));
    CONTINUE WHEN v_left <= 0 OR p_queues[q] = ANY (v_paused);
    IF p_suspect THEN
      SELECT array_agg(x.ctid) FROM (
        SELECT c.ctid FROM weir.live AS c
        WHERE c.state = 0 AND c.crashes >= 2 AND c.queue = p_queues[q] AND c.ready_at <= statement_timestamp()
          AND c.kind = ANY (v_kinds)
          AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
        ORDER BY c.ready_at LIMIT 1 FOR UPDATE SKIP LOCKED) AS x
      INTO v_found;
      IF v_found IS NOT NULL THEN
        v_tids := v_tids || v_found;
        v_left := v_left - 1;
        p_suspect := false;
      END IF;
    END IF;
    IF NOT p_force AND EXISTS (SELECT FROM unnest(v_hits) AS h WHERE (h - 1) / 9 = q - 1) THEN
      FOR i IN 0 .. 7 LOOP
        v_turn := pg_try_advisory_xact_lock(hashtextextended('weir.claim ' || p_queues[q], (pg_backend_pid() + i) % 8));
        EXIT WHEN v_turn;
      END LOOP;
      v_any := v_any OR NOT v_turn;
      CONTINUE WHEN NOT v_turn;
    END IF;
    FOR p IN 1 .. 9 LOOP
      EXIT WHEN v_left <= 0 OR v_cut;
      v_at := (q - 1) * 9 + p;
      v_scans[v_at] := 1;
      CONTINUE WHEN v_hits IS NULL OR v_at <> ALL (v_hits);
      SELECT array_agg(x.ctid), array_agg(x.size), array_agg(x.kind) FROM (
        SELECT c.ctid, c.size, c.kind FROM weir.live AS c
        WHERE c.state = 0 AND c.queue = p_queues[q] AND c.priority = p
          AND (c.ready_at, c.id) >= (p_starts[v_at], p_start_ids[v_at]) AND c.ready_at <= statement_timestamp()
          AND c.kind = ANY (v_kinds) AND c.crashes < 2
          AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
        ORDER BY c.ready_at, c.id LIMIT v_left FOR UPDATE SKIP LOCKED) AS x
      INTO v_found, v_sizes, v_of;
      v_take := coalesce(cardinality(v_found), 0);
      v_scans[v_at] := CASE WHEN v_take = v_left THEN 2 ELSE 1 END;
      IF p_rooms IS NOT NULL THEN
        v_kept := '{}';
        FOR i IN 1 .. v_take LOOP
          v_one := array_position(p_kinds, v_of[i]);
          CONTINUE WHEN p_rooms[v_one] = 0;
          p_rooms[v_one] := greatest(p_rooms[v_one] - 1, -1);
          v_kept := v_kept || i;
        END LOOP;
        v_found := ARRAY(SELECT v_found[k] FROM unnest(v_kept) AS k);
        v_sizes := ARRAY(SELECT v_sizes[k] FROM unnest(v_kept) AS k);
        v_take := cardinality(v_kept);
      END IF;
      CONTINUE WHEN v_take = 0;
      v_bytes := v_bytes + (SELECT sum(s) FROM unnest(v_sizes) AS s);
      IF v_bytes > p_max_bytes THEN -- give the last ones back: they stay available, first in line
        WHILE v_bytes > p_max_bytes AND v_take + cardinality(v_tids) > 1 LOOP
          v_bytes := v_bytes - v_sizes[v_take];
          v_take := v_take - 1;
        END LOOP;
        v_cut := true;
        v_scans[v_at] := 2;
      END IF;
      v_tids := v_tids || v_found[1 : v_take];
      v_left := v_left - v_take;
    END LOOP;
  END LOOP;
  -- A new statement, so a new snapshot: it sees also a row that another transaction changed just before it was locked.
  -- Not "AND l.state = 0": a plan made while the table was empty would then walk the whole of live_ready. That these rows
  -- wait follows from their lock, and from the claim that set both.
  IF cardinality(v_tids) > 0 THEN
    RETURN QUERY
    WITH taken AS (
      UPDATE weir.live AS l
      SET state = 1, session = p_session, attempt = l.attempt + 1, fence = l.fence + 1, claimed_at = clock_timestamp(), blocked_on = NULL
      WHERE l.ctid = ANY (v_tids) AND l.session IS NULL
      RETURNING l.id, l.kind, l.queue, l.priority, l.attempt, l.max_attempts, l.crashes, l.fence, l.ready_at,
        l.claimed_at, l.expires_at
    )
    SELECT t.id, t.kind, t.queue, t.priority, t.attempt, t.max_attempts, t.crashes, t.fence, t.ready_at,
      t.claimed_at, t.expires_at, j.id IS NULL, j.payload,
      j.enqueued_at, j.scheduled_at, j.timeout_ms, j.backoff::text, j.tags, j.metadata, j.trace::text, j.parent_id,
      NULL::timestamptz, NULL::timestamptz, NULL::smallint[], NULL, NULL, NULL::timestamptz[], NULL::boolean
    FROM taken AS t LEFT JOIN weir.jobs AS j ON j.id = ANY (ARRAY[t.id]); -- as in finish: one way to plan it
  END IF;
  IF p_next AND NOT (2 = ANY (v_scans)) THEN
    SELECT min(x.ready_at) FROM (
      SELECT (SELECT c.ready_at FROM weir.live AS c
        WHERE c.state = 0 AND c.queue = q AND c.priority = p AND c.ready_at > statement_timestamp()
        ORDER BY c.ready_at, c.id LIMIT 1) AS ready_at
      FROM unnest(p_queues) AS q, generate_series(1, 9) AS p) AS x
    INTO v_next;
  END IF;
  IF p_poll THEN
    SELECT array_agg((SELECT c.ready_at FROM weir.live AS c
        WHERE c.state = 0 AND c.queue = q.name AND c.priority = p
          AND (c.ready_at, c.id) >= (p_starts[(q.n - 1) * 9 + p], p_start_ids[(q.n - 1) * 9 + p])
          AND c.ready_at <= statement_timestamp() AND c.kind = ANY (p_kinds) AND c.crashes < 2
        ORDER BY c.ready_at, c.id LIMIT 1) ORDER BY q.n, p)
    FROM unnest(p_queues) WITH ORDINALITY AS q (name, n), generate_series(1, 9) AS p
    INTO v_held;
  END IF;
  RETURN QUERY SELECT NULL::uuid, NULL, NULL, NULL::smallint, NULL::int, NULL::int, NULL::smallint, NULL::int,
    NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::boolean, NULL::json,
    NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL, NULL::text[], NULL::json, NULL, NULL::uuid,
    statement_timestamp(), v_next, v_scans, v_snap, v_xid, v_held, v_any;
END
$$;
