-- claim: take due jobs for a session, all its queues in one call, by queue, priority, ready_at and id.
-- Of each priority the jobs without keys are taken; those with keys are candidates: read without a lock (plainRead: SKIP
-- LOCKED would take a second dispatcher past the first of a line to the next) and left to admit. Both come in one order.
-- Of those that are alone with their lock as many are taken here as $15 allows: see alone.
-- $1 session; $2 queues and $3 their free slots, in step; $4 kinds that this process knows; $5, $6 where each scan
-- starts: (ready_at, id) for queue q (from 1) and priority p at (q-1)*18+p, with keys at (q-1)*18+9+p; $7 whether a job that killed two
-- processes may be taken (one at a time: its neighbours must not die with it a third time); $8 most bytes of payload;
-- $9 whether this is a poll, which also returns what the watermark rule needs; $10 most jobs of all queues together;
-- $11 whether next_at is wanted; $12 how many of each kind may be taken, in step with $4, -1 for any number (NULL: any of
-- all). What its kind has no room for stays where it is, in front of what comes later: it is locked and not touched;
-- $13 whether to claim though many others are at it.
-- At most eight claims of a queue run at once (turn): who gets no turn leaves the queue alone and comes back a little later
-- (contended); no one waits, and $13 is for a queue whose turns are all held by the frozen.
-- $14 the most isolated mode that is accepted in each queue, in step with $2: a job that asks for more waits for another worker.
-- $15 how many slots of each queue are kept for jobs with keys, in step with $2: they are never claimed ahead.
-- Locks the rows of queues with a limit for the whole fleet and the rows taken, SKIP LOCKED, then lock rows, by key, as admit does.
-- Indexes live_ready and live_keyed, one range a queue and priority.
-- Returns the jobs in no order; candidates, with missing NULL and what admit needs to know in columns that they have no use for:
-- line_at in enqueued_at, keys in tags, the limits that count now in backoff (NULL: 1 each), whether it owns a lock row in
-- contended, and if it has rates those and until when one is closed in the payload; then
-- one row with id NULL: db_now, next_at (the next future ready_at, only if nothing was cut; or when a queue's rate has room
-- again), scans (0 not made, 1 complete, 2 cut, in step with $5), limited (a queue's limit cut its scans), and for a poll snap,
-- xid and held.
CREATE FUNCTION weir.claim_v1(
  p_session uuid, p_queues text[], p_slots int[], p_kinds text[], p_starts timestamptz[], p_start_ids uuid[],
  p_suspect boolean, p_max_bytes bigint, p_poll boolean, p_total int, p_next boolean, p_rooms int[], p_force boolean,
  p_modes smallint[], p_alone int[]
) RETURNS TABLE (
  id uuid, kind text, queue text, priority smallint, attempt int, max_attempts int, crashes smallint, fence int,
  ready_at timestamptz, claimed_at timestamptz, expires_at timestamptz, missing boolean, payload json,
  enqueued_at timestamptz, scheduled_at timestamptz, timeout_ms bigint, backoff text, tags text[], metadata json,
  trace text, parent_id uuid,
  db_now timestamptz, next_at timestamptz, scans smallint[], snap text, xid text, held timestamptz[], contended boolean, limited boolean,
  mode smallint, keys text[], key_limits int[]
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
  v_alive boolean; v_paused text[]; v_limited text[]; v_kinds text[];
  v_tids tid[] := '{}'; v_found tid[]; v_sizes int[]; v_of text[]; v_kept int[];
  v_bytes bigint := 0; v_take int; v_left int; v_at int; v_cut boolean := false; v_snap text; v_xid text;
  v_scans smallint[] := array_fill(0::smallint, ARRAY[18 * cardinality(p_queues)]);
  v_whole smallint[] := '{1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}'; v_none smallint[] := '{0,0,0,0,0,0,0,0,0}';
  v_held timestamptz[]; v_next timestamptz; v_hits bigint[]; v_hit_queues bigint[]; v_one int; v_turn boolean; v_any boolean := false;
  v_cands uuid[] := '{}'; v_cfound uuid[]; v_csizes int[]; v_cof text[]; v_cready timestamptz[]; v_ctake int;
  v_ready timestamptz[]; v_rids uuid[]; v_room int; v_opens timestamptz; v_before int; v_cbefore int; v_bound boolean; v_over boolean := false;
  v_alone uuid[] := '{}';
  -- More than the first page: some job had keys. A look whether one is there would pass all dead entries under a held snapshot.
  v_last int := CASE WHEN pg_relation_size('weir.live_keyed') <= current_setting('block_size')::int THEN 9 ELSE 18 END;
BEGIN
  -- With one queue before anything is looked at: of sixty-four dispatchers more are refused than not.
  v_turn := p_force OR cardinality(p_queues) = 1 AND weir.turn_v1(p_queues[1]);
  IF cardinality(p_queues) = 1 AND NOT v_turn AND NOT p_poll THEN
    db_now := statement_timestamp(); scans := v_scans; contended := true; limited := false;
    RETURN NEXT;
    RETURN;
  END IF;
  -- A session that was given away claims nothing. Should the mark commit a moment later, the sweeper's next round
  -- finds these rows (rescan).
  -- (Few statements, and small ones: to begin one costs an empty claim more than to run it.)
  SELECT s.dead_at IS NULL,
    ARRAY(SELECT q.name FROM weir.queues AS q WHERE q.name = ANY (p_queues) AND q.paused_at IS NOT NULL),
    ARRAY(SELECT q.name FROM weir.queues AS q WHERE q.name = ANY (p_queues) AND (q.slots IS NOT NULL OR q.rate IS NOT NULL)),
    ARRAY(SELECT k.name FROM weir.kinds AS k WHERE k.paused_at IS NOT NULL AND k.name = ANY (p_kinds)),
    p_suspect AND EXISTS (SELECT FROM weir.live AS c WHERE c.state = 0 AND c.crashes >= 2)
  INTO v_alive, v_paused, v_limited, v_kinds, p_suspect
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
  -- Which ranges have anything to take: one statement for all of them, since most are empty most of the time. (A scalar
  -- subquery: it cannot become a join. Each with the whole predicate of its index.)
  SELECT array_agg((q.n - 1) * 18 + p), array_agg(q.n) FROM unnest(p_queues) WITH ORDINALITY AS q (name, n), generate_series(1, v_last) AS p
  WHERE p_start_ids[(q.n - 1) * 18 + p] <> '00000000-0000-0000-0000-000000000000' -- the last scan was cut: no need to look
    OR CASE WHEN p <= 9 THEN (SELECT c.priority FROM weir.live AS c
    WHERE c.state = 0 AND c.flags & 1 = 0 AND c.queue = q.name AND c.priority = p
      AND (c.ready_at, c.id) >= (p_starts[(q.n - 1) * 18 + p], p_start_ids[(q.n - 1) * 18 + p])
      AND c.ready_at <= statement_timestamp()
      AND c.kind = ANY (v_kinds) AND c.crashes < 2 AND c.mode <= p_modes[q.n]
      AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
    LIMIT 1) ELSE (SELECT c.priority FROM weir.live AS c
    WHERE c.state = 0 AND c.flags & 1 = 1 AND c.queue = q.name AND c.priority = p - 9
      AND (c.ready_at, c.id) >= (p_starts[(q.n - 1) * 18 + p], p_start_ids[(q.n - 1) * 18 + p])
      AND c.ready_at <= statement_timestamp()
      AND c.kind = ANY (v_kinds) AND c.crashes < 2 AND c.mode <= p_modes[q.n]
      AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
    LIMIT 1) END IS NOT NULL
  INTO v_hits, v_hit_queues;
  v_hits := coalesce(v_hits, '{}');
  FOR q IN 1 .. cardinality(p_queues) LOOP
    v_left := least(p_slots[q], p_total - cardinality(v_tids) - cardinality(v_cands));
    CONTINUE WHEN v_left <= 0 OR p_queues[q] = ANY (v_paused);
    v_bound := false;
    v_before := cardinality(v_tids);
    v_cbefore := cardinality(v_cands);
    IF p_queues[q] = ANY (v_limited) AND (p_suspect OR q = ANY (v_hit_queues)) THEN
      SELECT x.room, x.opens INTO v_room, v_opens FROM weir.queue_room_v1(p_queues[q]) AS x;
      v_any := v_any OR v_room IS NULL;
      CONTINUE WHEN v_room IS NULL; -- another counts
      IF v_room < v_left THEN
        v_bound := true;
        v_left := v_room;
      END IF;
      IF v_left = 0 THEN
        v_over := true;
        v_next := least(v_next, v_opens);
        CONTINUE;
      END IF;
    END IF;
    IF p_suspect THEN
      SELECT array_agg(x.ctid) FROM (
        SELECT c.ctid FROM weir.live AS c
        WHERE c.state = 0 AND c.crashes >= 2 AND c.mode <= p_modes[q] AND c.queue = p_queues[q] AND c.ready_at <= statement_timestamp()
          AND c.flags & 1 = 0 AND c.kind = ANY (v_kinds)
          AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
        ORDER BY c.ready_at LIMIT 1 FOR UPDATE SKIP LOCKED) AS x
      INTO v_found;
      IF v_found IS NOT NULL THEN
        v_tids := v_tids || v_found;
        v_left := v_left - 1;
        p_suspect := false;
      ELSE
        v_cfound := ARRAY(
          SELECT c.id FROM weir.live AS c
          WHERE c.state = 0 AND c.crashes >= 2 AND c.mode <= p_modes[q] AND c.queue = p_queues[q] AND c.ready_at <= statement_timestamp()
            AND c.flags & 1 = 1 AND c.kind = ANY (v_kinds)
            AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
          ORDER BY c.ready_at LIMIT 1);
        IF v_cfound <> '{}' THEN
          v_cands := v_cands || v_cfound;
          v_left := v_left - 1;
          p_suspect := false;
        END IF;
      END IF;
    END IF;
    IF q = ANY (v_hit_queues) THEN
      v_turn := p_force OR CASE WHEN cardinality(p_queues) = 1 THEN v_turn ELSE weir.turn_v1(p_queues[q]) END;
      v_any := v_any OR NOT v_turn;
      CONTINUE WHEN NOT v_turn;
    END IF;
    v_scans[(q - 1) * 18 + 1 : q * 18] := v_whole; -- what has nothing to take is complete
    FOR p IN 1 .. 9 LOOP
      v_at := (q - 1) * 18 + p;
      CONTINUE WHEN v_at <> ALL (v_hits) AND v_at + 9 <> ALL (v_hits);
      IF v_left <= 0 OR v_cut THEN -- the rest is not looked at
        v_scans[v_at : v_at + 9 - p] := v_none[p : 9];
        v_scans[v_at + 9 : v_at + 18 - p] := v_none[p : 9];
        EXIT;
      END IF;
      v_found := NULL; v_ctake := 0;
      IF v_at = ANY (v_hits) AND v_at + 9 <> ALL (v_hits) THEN
        SELECT array_agg(x.ctid), array_agg(x.size), array_agg(x.kind) FROM (
          SELECT c.ctid, c.size, c.kind FROM weir.live AS c
          WHERE c.state = 0 AND c.flags & 1 = 0 AND c.queue = p_queues[q] AND c.priority = p
            AND (c.ready_at, c.id) >= (p_starts[v_at], p_start_ids[v_at]) AND c.ready_at <= statement_timestamp()
            AND c.kind = ANY (v_kinds) AND c.crashes < 2 AND c.mode <= p_modes[q]
            AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
          ORDER BY c.ready_at, c.id LIMIT v_left FOR UPDATE SKIP LOCKED) AS x
        INTO v_found, v_sizes, v_of;
      ELSE
        SELECT array_agg(x.id), array_agg(x.size), array_agg(x.kind), array_agg(x.ready_at) FROM (
          SELECT c.id, c.size, c.kind, c.ready_at FROM weir.live AS c
          WHERE c.state = 0 AND c.flags & 1 = 1 AND c.queue = p_queues[q] AND c.priority = p
            AND (c.ready_at, c.id) >= (p_starts[v_at + 9], p_start_ids[v_at + 9]) AND c.ready_at <= statement_timestamp()
            AND c.kind = ANY (v_kinds) AND c.crashes < 2 AND c.mode <= p_modes[q]
            AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
          ORDER BY c.ready_at, c.id LIMIT v_left) AS x
        INTO v_cfound, v_csizes, v_cof, v_cready;
        v_ctake := coalesce(cardinality(v_cfound), 0);
        v_scans[v_at + 9] := CASE WHEN v_ctake = v_left THEN 2 ELSE 1 END;
      END IF;
      IF v_at = ANY (v_hits) AND v_at + 9 = ANY (v_hits) THEN
        SELECT array_agg(x.ctid), array_agg(x.size), array_agg(x.kind), array_agg(x.ready_at), array_agg(x.id) FROM (
          SELECT c.ctid, c.size, c.kind, c.ready_at, c.id FROM weir.live AS c
          WHERE c.state = 0 AND c.flags & 1 = 0 AND c.queue = p_queues[q] AND c.priority = p
            AND (c.ready_at, c.id) >= (p_starts[v_at], p_start_ids[v_at]) AND c.ready_at <= statement_timestamp()
            AND c.kind = ANY (v_kinds) AND c.crashes < 2 AND c.mode <= p_modes[q]
            AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
          ORDER BY c.ready_at, c.id LIMIT v_left FOR UPDATE SKIP LOCKED) AS x
        INTO v_found, v_sizes, v_of, v_ready, v_rids;
      END IF;
      v_take := coalesce(cardinality(v_found), 0);
      v_scans[v_at] := CASE WHEN v_take = v_left THEN 2 ELSE 1 END;
      IF v_take + v_ctake > v_left THEN -- the first of both; those taken in vain stay where they are
        SELECT count(*) FILTER (WHERE m.keyed), count(*) FILTER (WHERE NOT m.keyed) FROM (
          SELECT x.keyed FROM (
            SELECT u.at, u.id, false AS keyed FROM unnest(v_ready, v_rids) AS u (at, id)
            UNION ALL
            SELECT u.at, u.id, true FROM unnest(v_cready, v_cfound) AS u (at, id)) AS x
          ORDER BY x.at, x.id LIMIT v_left) AS m
        INTO v_ctake, v_take;
        v_found := v_found[1 : v_take];
        v_sizes := v_sizes[1 : v_take];
        v_scans[v_at] := CASE WHEN v_take < cardinality(v_of) THEN 2 ELSE v_scans[v_at] END;
        v_scans[v_at + 9] := CASE WHEN v_ctake < cardinality(v_cfound) THEN 2 ELSE v_scans[v_at + 9] END;
      END IF;
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
        v_kept := '{}';
        FOR i IN 1 .. v_ctake LOOP
          v_one := array_position(p_kinds, v_cof[i]);
          CONTINUE WHEN p_rooms[v_one] = 0;
          p_rooms[v_one] := greatest(p_rooms[v_one] - 1, -1);
          v_kept := v_kept || i;
        END LOOP;
        v_cfound := ARRAY(SELECT v_cfound[k] FROM unnest(v_kept) AS k);
        v_csizes := ARRAY(SELECT v_csizes[k] FROM unnest(v_kept) AS k);
        v_ctake := cardinality(v_kept);
      END IF;
      IF v_ctake > 0 THEN -- what admit reads is bounded here
        v_one := (SELECT sum(s) FROM unnest(v_csizes[1 : v_ctake]) AS s);
        IF v_bytes + v_one <= p_max_bytes THEN
          v_bytes := v_bytes + v_one;
          v_cands := v_cands || v_cfound[1 : v_ctake];
          v_left := v_left - v_ctake;
        ELSE
          FOR i IN 1 .. v_ctake LOOP
            IF v_bytes + v_csizes[i] > p_max_bytes AND cardinality(v_tids) + cardinality(v_cands) > 0 THEN
              v_cut := true;
              v_scans[v_at + 9] := 2;
              EXIT;
            END IF;
            v_bytes := v_bytes + v_csizes[i];
            v_cands := v_cands || v_cfound[i];
            v_left := v_left - 1;
          END LOOP;
        END IF;
      END IF;
      CONTINUE WHEN v_take = 0;
      v_bytes := v_bytes + (SELECT sum(s) FROM unnest(v_sizes) AS s);
      IF v_bytes > p_max_bytes THEN -- give the last ones back: they stay available, first in line
        WHILE v_bytes > p_max_bytes AND v_take + cardinality(v_tids) + cardinality(v_cands) > 1 LOOP
          v_bytes := v_bytes - v_sizes[v_take];
          v_take := v_take - 1;
        END LOOP;
        v_cut := true;
        v_scans[v_at] := 2;
      END IF;
      v_tids := v_tids || v_found[1 : v_take];
      v_left := v_left - v_take;
    END LOOP;
    IF v_bound AND v_left <= 0 THEN
      v_over := true;
      v_next := least(v_next, v_opens);
    END IF;
    IF NOT p_queues[q] = ANY (v_limited) THEN -- what has no key comes first: it may need the slots
      v_alone := v_alone || v_cands[v_cbefore + 1 : v_cbefore + greatest(p_alone[q] - (cardinality(v_tids) - v_before), 0)];
    END IF;
    IF p_queues[q] = ANY (v_limited) AND cardinality(v_tids) > v_before THEN
      PERFORM weir.queue_granted_v1(p_queues[q], cardinality(v_tids) - v_before);
    END IF;
  END LOOP;
  IF v_alone <> '{}' THEN
    v_tids := v_tids || weir.alone_v1(v_cands, v_alone);
  END IF;
  -- A new statement, so a new snapshot: it sees also a row that another transaction changed just before it was locked.
  -- Not "AND l.state = 0": a plan made while the table was empty would then walk the whole of live_ready. That these rows
  -- wait follows from their lock, and from the claim that set both.
  IF cardinality(v_tids) > 0 THEN
    RETURN QUERY
    WITH taken AS (
      UPDATE weir.live AS l
      SET state = 1, session = p_session, attempt = l.attempt + 1, fence = l.fence + 1, claimed_at = clock_timestamp(), blocked_on = NULL
      WHERE l.ctid = ANY (v_tids) AND (l.session IS NULL OR l.state = 0) -- or: set available by hand, with its session
      RETURNING l.id, l.kind, l.queue, l.priority, l.attempt, l.max_attempts, l.crashes, l.fence, l.ready_at,
        l.claimed_at, l.expires_at, l.mode, l.keys, l.key_limits
    )
    SELECT t.id, t.kind, t.queue, t.priority, t.attempt, t.max_attempts, t.crashes, t.fence, t.ready_at,
      t.claimed_at, t.expires_at, j.id IS NULL, j.payload,
      j.enqueued_at, j.scheduled_at, j.timeout_ms, j.backoff::text, j.tags, j.metadata, j.trace::text, j.parent_id,
      NULL::timestamptz, NULL::timestamptz, NULL::smallint[], NULL, NULL, NULL::timestamptz[], NULL::boolean, NULL::boolean, t.mode,
      t.keys, t.key_limits
    FROM taken AS t LEFT JOIN weir.jobs AS j ON j.id = ANY (ARRAY[t.id]); -- as in finish: one way to plan it
  END IF;
  IF v_cands <> '{}' THEN
    RETURN QUERY
    SELECT c.id, c.kind, c.queue, c.priority, c.attempt, c.max_attempts, c.crashes, c.fence, c.ready_at, NULL::timestamptz,
      c.expires_at, NULL::boolean,
      CASE WHEN c.rates IS NOT NULL THEN json_build_object('rates', weir.rates_of(c.rates), 'hold', (
        SELECT max(h.until) FROM unnest(c.rates) AS u (rate)
          JOIN weir.rate_holds AS h ON h.key = substr(u.rate, strpos(u.rate, ' ') + 1) WHERE h.until > statement_timestamp())) END,
      c.line_at, NULL::timestamptz, NULL::bigint,
      CASE WHEN EXISTS (SELECT FROM weir.limits) THEN ARRAY(
        SELECT weir.limit_of(u.key, coalesce(u.own, 1)) FROM unnest(c.keys, c.key_limits) WITH ORDINALITY AS u (key, own, n) ORDER BY u.n)::text
        ELSE c.key_limits::text END,
      c.keys, NULL::json, NULL, NULL::uuid,
      NULL::timestamptz, NULL::timestamptz, NULL::smallint[], NULL, NULL, NULL::timestamptz[],
      (SELECT k.slot FROM weir.locks AS k WHERE k.job_id = c.id LIMIT 1) IS NOT NULL, -- a scalar: it cannot become a join
      NULL::boolean, c.mode, NULL::text[], NULL::int[]
    FROM unnest(v_cands) AS i (id) JOIN weir.live AS c ON c.id = ANY (ARRAY[i.id])
    WHERE c.state + 0 = 0;
  END IF;
  IF p_next AND NOT (2 = ANY (v_scans)) THEN
    SELECT least(v_next, min(x.ready_at)) FROM (
      SELECT CASE WHEN p <= 9 THEN (SELECT c.ready_at FROM weir.live AS c
        WHERE c.state = 0 AND c.flags & 1 = 0 AND c.queue = q AND c.priority = p AND c.ready_at > statement_timestamp()
        ORDER BY c.ready_at, c.id LIMIT 1) ELSE (SELECT c.ready_at FROM weir.live AS c
        WHERE c.state = 0 AND c.flags & 1 = 1 AND c.queue = q AND c.priority = p - 9 AND c.ready_at > statement_timestamp()
        ORDER BY c.ready_at, c.id LIMIT 1) END AS ready_at
      FROM unnest(p_queues) AS q, generate_series(1, v_last) AS p) AS x
    INTO v_next;
  END IF;
  IF p_poll THEN
    SELECT array_agg(CASE WHEN p <= 9 THEN (SELECT c.ready_at FROM weir.live AS c
        WHERE c.state = 0 AND c.flags & 1 = 0 AND c.queue = q.name AND c.priority = p
          AND (c.ready_at, c.id) >= (p_starts[(q.n - 1) * 18 + p], p_start_ids[(q.n - 1) * 18 + p])
          AND c.ready_at <= statement_timestamp() AND c.kind = ANY (p_kinds) AND c.crashes < 2 AND c.mode <= p_modes[q.n]
        ORDER BY c.ready_at, c.id LIMIT 1) WHEN p <= v_last THEN (SELECT c.ready_at FROM weir.live AS c
        WHERE c.state = 0 AND c.flags & 1 = 1 AND c.queue = q.name AND c.priority = p - 9
          AND (c.ready_at, c.id) >= (p_starts[(q.n - 1) * 18 + p], p_start_ids[(q.n - 1) * 18 + p])
          AND c.ready_at <= statement_timestamp() AND c.kind = ANY (p_kinds) AND c.crashes < 2 AND c.mode <= p_modes[q.n]
        ORDER BY c.ready_at, c.id LIMIT 1) END ORDER BY q.n, p)
    FROM unnest(p_queues) WITH ORDINALITY AS q (name, n), generate_series(1, 18) AS p
    INTO v_held;
  END IF;
  db_now := statement_timestamp(); next_at := v_next; scans := v_scans; snap := v_snap; xid := v_xid; held := v_held;
  contended := v_any; limited := v_over;
  RETURN NEXT; -- id and the others were never set
END
$$;
