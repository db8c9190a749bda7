-- pass: gives the free slots of a lock to the oldest jobs that are blocked on it: called after the commit of whatever freed it,
-- blocked a job on it or raised its limit, so that of two that cross one sees the other. $1 session, zero: take none; $2 key;
-- $3 queues and $4 kinds served here; $5 slots kept here for hand-overs, in step with $3; $6 how long a reservation lasts in ms.
-- A job is locked only if by the snapshot all its locks have room (lockIfFree), and then waited for (passWaits): whoever has
-- it now may be about to leave it as it is. What it then gets is decided anew, in lock_keys. It runs here if there is a
-- slot for it (take_here), else it is available again with a reservation (pgReserve).
-- Locks live rows in the order of ids, then lock rows by (key, slot). Indexes live_line, waits, locks.
-- Returns rows of weir.keyed_v1: 1 jobs that run now, 7 reservations, 9 locks that have a new owner, 10 the end: again, if
-- somebody could have had a slot and did not get it, or more may follow (passLoop).
CREATE FUNCTION weir.pass_v1(
  p_session uuid, p_key text, p_queues text[], p_kinds text[], p_take int[], p_reserve_ms bigint
) RETURNS SETOF weir.keyed_v1
LANGUAGE plpgsql VOLATILE ROWS 10
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
  r weir.keyed_v1; g record; w record;
  v_heads uuid[] := ARRAY(SELECT weir.heads_v1(p_key, 20));
  v_ids uuid[]; v_run int[]; v_had uuid[]; v_at int;
BEGIN
  r.what := 10; r.again := false;
  IF v_heads <> '{}' THEN
    v_ids := ARRAY(
      SELECT l.id FROM weir.live AS l
      WHERE l.id = ANY (v_heads) AND l.state + 0 = 2
      ORDER BY l.id FOR UPDATE);
    r.again := true;
  END IF;
  IF cardinality(v_ids) > 0 THEN
    g := weir.gate_v1(p_session, p_queues, p_kinds);
    FOR w IN
      SELECT l.id, l.queue, l.kind, l.priority, l.rates, l.crashes, l.mode
      FROM unnest(v_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id]) ORDER BY l.line_at, l.id
    LOOP
      v_at := array_position(p_queues, w.queue);
      v_run[array_position(v_ids, w.id)] := 0;
      IF p_take[v_at] > 0
        AND weir.take_here_v1(g.alive, g.queues, g.kinds, g.limited, w.queue, w.kind, w.priority, w.rates, w.crashes, w.mode) THEN
        p_take[v_at] := p_take[v_at] - 1;
        v_run[array_position(v_ids, w.id)] := 1;
      END IF;
    END LOOP;
    SELECT ARRAY(SELECT k.job_id FROM (
        SELECT array_agg(l.id) AS id, array_agg(l.line_at) AS line, array_agg(l.fence) AS fence, array_agg(u.key) AS key,
          array_agg(coalesce(u.own, 1)) AS own, array_agg(u.n) AS n,
          array_agg(false) AS refused, array_agg(i.run) AS run
        FROM unnest(v_ids, v_run) AS i (id, run) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
          CROSS JOIN LATERAL unnest(l.keys, l.key_limits) WITH ORDINALITY AS u (key, own, n)) AS a,
      weir.lock_keys_v1(a.id, a.line, a.fence, a.key, a.own, a.n, a.refused, a.run, true, p_reserve_ms, false) AS k
      WHERE k.got)
    INTO v_had;
    r.again := cardinality(v_had) < cardinality(v_heads) OR cardinality(v_heads) = 20;
    RETURN QUERY SELECT * FROM weir.unblock_v1(p_session, v_had,
      ARRAY(SELECT t.run FROM unnest(v_had) WITH ORDINALITY AS h (id, n) JOIN unnest(v_ids, v_run) AS t (id, run) ON t.id = h.id ORDER BY h.n));
    RETURN QUERY SELECT m.* FROM (
      SELECT u.key, l.id FROM unnest(v_had) AS h (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[h.id]) CROSS JOIN LATERAL unnest(l.keys) AS u (key)) AS x,
      LATERAL weir.moved_v1(x.key, NULL, x.id) AS m;
  END IF;
  r.db_now := clock_timestamp();
  RETURN NEXT r;
END
$$;
