-- enqueue_unique: jobs of which only one of its kind may exist with a key. $1 a JSON array of objects with the fields of
-- enqueue_json and: known (the id may be in the log), unique_key and unique_args (hex of hashes), unique_for (ms), unique_waiting
-- (only a job that does not run counts), unique_replace; $2 how long in ms to wait for a transaction that is open, 0: as the
-- session is set.
-- The key goes to whoever inserts its row first: a second waits for an open one, and takes the key if that rolls back. A loser
-- learns the winner in a new statement (fact 11), and only a committed one. Jobs are inserted for winners alone, and a winner whose
-- id turns out to be in the log gives the key back (uniqueAsksLog): its job runs or is over, in an earlier try.
-- A key is taken from a job only while its live row is locked, and the row of the key after that, as who ends a job does; so
-- what is decided holds. From a job that runs (unique_waiting) it is taken with flag 16: it is not to wait again.
-- Locks: rows of keys in their order, then of jobs that are replaced. A job that stays is not even locked. Primary keys.
-- Returns enqueue_json's row and a JSON array: for each job that was not simply stored n (from 0), winner, differs and replaced;
-- and the locks that replaced jobs had or waited for.
CREATE FUNCTION weir.enqueue_unique_v1(p_jobs text, p_wait_ms bigint)
RETURNS TABLE (db_now_us bigint, inserted bigint, least_ready_us bigint, said text, freed text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  v_jobs json[]; v_ids uuid[]; v_kinds text[]; v_keys bytea[]; v_args bytea[]; v_for bigint[];
  v_known boolean[]; v_waiting boolean[]; v_replace boolean[];
  v_said json[] := '{}'; v_rest int[]; v_lost int[]; v_won int[]; v_dups uuid[] := '{}'; v_freed text[] := '{}';
  v_patience text := current_setting('lock_timeout'); v_owner uuid; v_content bytea; v_held boolean; v_state smallint; v_fence int;
  v_locked boolean; v_live boolean; v_replaced uuid; v_inserted bigint := 0; v_least bigint; v_one record;
BEGIN
  IF p_wait_ms > 0 THEN
    PERFORM set_config('lock_timeout', p_wait_ms::text, true);
  END IF;
  SELECT array_agg(e.j ORDER BY e.n), array_agg((e.j->>'id')::uuid ORDER BY e.n), array_agg(e.j->>'kind' ORDER BY e.n),
    array_agg(decode(e.j->>'unique_key', 'hex') ORDER BY e.n), array_agg(decode(e.j->>'unique_args', 'hex') ORDER BY e.n),
    array_agg((e.j->>'unique_for')::bigint ORDER BY e.n), array_agg(coalesce((e.j->>'known')::boolean, false) ORDER BY e.n),
    array_agg(coalesce((e.j->>'unique_waiting')::boolean, false) ORDER BY e.n),
    array_agg(coalesce((e.j->>'unique_replace')::boolean, false) ORDER BY e.n)
  FROM json_array_elements(p_jobs::json) WITH ORDINALITY AS e (j, n)
  INTO v_jobs, v_ids, v_kinds, v_keys, v_args, v_for, v_known, v_waiting, v_replace;
  -- An id that is in the log was stored before, whatever its key says now.
  SELECT coalesce(array_agg(i.n), '{}'), coalesce(array_agg(json_build_object('n', i.n - 1, 'winner', i.id)), '{}')
  FROM unnest(v_ids, v_known) WITH ORDINALITY AS i (id, known, n)
  WHERE i.known AND EXISTS (SELECT FROM weir.log_row(i.id))
  INTO v_lost, v_said;
  -- A plain look first: who loses to a job that is there waits for nobody and locks nothing.
  SELECT v_lost || coalesce(array_agg(x.n), '{}'), v_said || coalesce(array_agg(x.said), '{}') FROM (
    SELECT i.n::int, json_build_object('n', i.n - 1, 'winner', u.job_id, 'differs', coalesce(u.args <> i.args, false)) AS said
    FROM unnest(v_ids, v_kinds, v_keys, v_args, v_waiting, v_replace) WITH ORDINALITY AS i (id, kind, key, args, waiting, replace, n)
      JOIN weir.uniques AS u ON u.kind = i.kind AND u.key = ANY (ARRAY[i.key]) AND u.slot = 0
      LEFT JOIN weir.live AS l ON l.id = ANY (ARRAY[u.job_id])
    WHERE i.n <> ALL (v_lost)
      AND CASE WHEN l.id IS NULL THEN u.until > clock_timestamp() WHEN l.state = 1 THEN NOT i.waiting OR u.until > clock_timestamp() ELSE NOT i.replace END) AS x
  INTO v_lost, v_said;
  WITH put AS (
    INSERT INTO weir.uniques AS u (kind, key, slot, job_id, until, args)
    SELECT i.kind, i.key, 0, i.id, clock_timestamp() + i.for_ms * interval '1 ms', i.args
    FROM unnest(v_ids, v_kinds, v_keys, v_args, v_for) WITH ORDINALITY AS i (id, kind, key, args, for_ms, n)
    WHERE i.n <> ALL (v_lost)
    ORDER BY i.kind, i.key, i.n
    ON CONFLICT DO NOTHING
    RETURNING u.job_id
  )
  SELECT coalesce(array_agg(i.n), '{}') FROM put AS p JOIN unnest(v_ids) WITH ORDINALITY AS i (id, n) ON i.id = p.job_id INTO v_won;
  IF v_won <> '{}' THEN
    SELECT e.db_now_us, e.inserted, e.least_ready_us, coalesce(string_to_array(e.duplicates, ',')::uuid[], '{}')
    FROM (SELECT json_agg(v_jobs[w.n] ORDER BY w.n)::text AS jobs FROM unnest(v_won) AS w (n)) AS j, weir.enqueue_json_v1(j.jobs, 2::smallint) AS e
    INTO db_now_us, v_inserted, v_least, v_dups;
  END IF;
  -- In a new statement each: those that met a transaction which was open a moment ago, and those that may take the key from another.
  FOR i IN 1 .. cardinality(v_ids) LOOP
    CONTINUE WHEN i = ANY (v_lost) OR i = ANY (v_won);
    v_locked := false; v_replaced := NULL;
    FOR try IN 1 .. 1000 LOOP
      IF try = 1000 THEN
        RAISE EXCEPTION 'unique key changes hands all the time' USING ERRCODE = '40001';
      END IF;
      SELECT u.job_id, u.args, coalesce(u.until > clock_timestamp(), false) FROM weir.uniques AS u
      WHERE u.kind = v_kinds[i] AND u.key = v_keys[i] AND u.slot = 0
      INTO v_owner, v_content, v_held;
      EXIT WHEN v_owner = v_ids[i]; -- an earlier try with this id
      IF v_locked THEN
        SELECT l.state, l.fence FROM weir.live AS l WHERE l.id = v_owner FOR UPDATE INTO v_state, v_fence;
        v_live := FOUND;
        CONTINUE WHEN NOT EXISTS (SELECT FROM weir.uniques AS u
          WHERE u.kind = v_kinds[i] AND u.key = v_keys[i] AND u.slot = 0 AND u.job_id = v_owner) AND v_owner IS NOT NULL;
      ELSE
        SELECT l.state, l.fence FROM weir.live AS l WHERE l.id = v_owner INTO v_state, v_fence;
        v_live := FOUND;
      END IF;
      EXIT WHEN v_live AND CASE WHEN v_state = 1 THEN NOT v_waiting[i] OR v_held ELSE NOT v_replace[i] END OR NOT v_live AND v_held;
      IF v_known[i] AND EXISTS (SELECT FROM weir.log_row(v_ids[i])) THEN
        v_owner := v_ids[i];
        EXIT;
      END IF;
      IF v_live AND NOT v_locked THEN
        v_locked := true;
        CONTINUE;
      END IF;
      IF v_live AND v_state = 1 THEN
        UPDATE weir.live AS l SET flags = l.flags | 16::smallint WHERE l.id = v_owner AND l.flags & 16 = 0;
      ELSIF v_live THEN
        SELECT v_freed || coalesce(b.freed, '{}')
        FROM weir.bury_v1(NULL, ARRAY[v_owner], ARRAY[v_fence], ARRAY[2::smallint], NULL, NULL, ARRAY['superseded by ' || weir.ulid(v_ids[i])], NULL, NULL) AS b
        INTO v_freed;
        v_replaced := v_owner;
      END IF;
      INSERT INTO weir.uniques AS u (kind, key, slot, job_id, until, args)
      VALUES (v_kinds[i], v_keys[i], 0, v_ids[i], clock_timestamp() + v_for[i] * interval '1 ms', v_args[i])
      ON CONFLICT (kind, key, slot) DO UPDATE SET job_id = excluded.job_id, until = excluded.until, args = excluded.args
      WHERE u.job_id = v_owner;
      CONTINUE WHEN NOT FOUND;
      v_owner := NULL;
      EXIT;
    END LOOP;
    IF v_owner IS NOT NULL THEN
      v_said := v_said || json_build_object('n', i - 1, 'winner', v_owner, 'differs', coalesce(v_owner <> v_ids[i] AND v_content <> v_args[i], false));
      CONTINUE;
    END IF;
    IF v_replaced IS NOT NULL THEN
      v_said := v_said || json_build_object('n', i - 1, 'replaced', v_replaced);
    END IF;
    SELECT e.db_now_us, e.inserted, e.least_ready_us, string_to_array(e.duplicates, ',')::uuid[] AS duplicates
    FROM weir.enqueue_json_v1(json_build_array(v_jobs[i])::text, 2::smallint) AS e
    INTO v_one;
    db_now_us := v_one.db_now_us; v_inserted := v_inserted + v_one.inserted; v_least := least(v_least, v_one.least_ready_us);
    v_dups := v_dups || v_one.duplicates;
  END LOOP;
  IF v_dups <> '{}' THEN -- uniqueAsksLog
    DELETE FROM weir.uniques AS u USING unnest(v_ids, v_kinds, v_keys) AS i (id, kind, key)
    WHERE i.id = ANY (v_dups) AND u.kind = i.kind AND u.key = ANY (ARRAY[i.key]) AND u.slot = 0 AND u.job_id = i.id;
    v_said := v_said || ARRAY(SELECT json_build_object('n', i.n - 1, 'winner', i.id) FROM unnest(v_ids) WITH ORDINALITY AS i (id, n) WHERE i.id = ANY (v_dups));
  END IF;
  PERFORM set_config('lock_timeout', v_patience, true);
  db_now_us := coalesce(db_now_us, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  inserted := v_inserted; least_ready_us := v_least;
  said := to_json(v_said)::text;
  freed := CASE WHEN v_freed <> '{}' THEN to_json(v_freed)::text END;
  RETURN NEXT;
END
$$;
