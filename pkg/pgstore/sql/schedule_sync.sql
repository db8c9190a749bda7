-- schedule_sync: the schedules of $1 owner become those of $3, a JSON array, unless a newer version than $2 has spoken (newestWins).
-- What is not in the array goes; what did not change is not touched, so its next_at stays, as it does unless the rhythm
-- changed or it comes to life (keepsNext). Other owners' schedules are never touched: to name one of them is an error
-- (WE101, the owner in the detail).
-- Locks the owner's row, so that the syncs of one owner take turns, then rows of schedules in the order of names.
-- Returns what was done to which schedule: added, changed or removed; or one row "older".
CREATE FUNCTION weir.schedule_sync_v1(p_owner text, p_version bigint, p_entries text) RETURNS TABLE (what text, schedule text)
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
  e record;
  s weir.schedules%ROWTYPE;
  v_names text[] := ARRAY(SELECT x ->> 'name' FROM jsonb_array_elements(p_entries::jsonb) AS x);
  v_keeps boolean;
BEGIN
  INSERT INTO weir.schedule_owners AS o (owner, version, synced_at) VALUES (p_owner, p_version, clock_timestamp())
  ON CONFLICT (owner) DO UPDATE SET version = excluded.version, synced_at = excluded.synced_at
  WHERE o.version <= excluded.version;
  IF NOT FOUND THEN
    what := 'older';
    RETURN NEXT;
    RETURN;
  END IF;
  FOR e IN
    SELECT d.name FROM weir.schedules AS d WHERE d.owner = p_owner AND d.name <> ALL (v_names) ORDER BY d.name FOR UPDATE
  LOOP
    DELETE FROM weir.schedules AS d WHERE d.name = e.name;
    what := 'removed'; schedule := e.name;
    RETURN NEXT;
  END LOOP;
  FOR e IN
    SELECT x.name, x.cron, x.zone, x.every_ms, x.misfire, x.misfire_cap, x.enabled, x.next_at, x.job
    FROM jsonb_to_recordset(p_entries::jsonb) AS x (name text, cron text, zone text, every_ms bigint, misfire text, misfire_cap int,
      enabled boolean, next_at timestamptz, job jsonb)
    ORDER BY x.name
  LOOP
    schedule := e.name;
    INSERT INTO weir.schedules AS n (name, owner, next_at, enabled, cron, zone, every_ms, misfire, misfire_cap, job)
    VALUES (e.name, p_owner, e.next_at, e.enabled, e.cron, e.zone, e.every_ms, e.misfire, e.misfire_cap, e.job)
    ON CONFLICT (name) DO NOTHING;
    IF FOUND THEN
      what := 'added';
      RETURN NEXT;
      CONTINUE;
    END IF;
    SELECT o.* FROM weir.schedules AS o WHERE o.name = e.name FOR UPDATE INTO s;
    IF s.owner IS DISTINCT FROM p_owner THEN
      RAISE EXCEPTION '%', e.name USING ERRCODE = 'WE101', DETAIL = s.owner;
    END IF;
    CONTINUE WHEN (s.cron, s.zone, s.every_ms, s.misfire, s.misfire_cap, s.enabled, s.job)
      IS NOT DISTINCT FROM (e.cron, e.zone, e.every_ms, e.misfire, e.misfire_cap, e.enabled, e.job);
    IF s.enabled <> e.enabled THEN
      s.override := NULL; -- the declaration has changed its mind: it is newer than what was said by hand
    END IF;
    v_keeps := (s.cron, s.zone, s.every_ms) IS NOT DISTINCT FROM (e.cron, e.zone, e.every_ms) AND (s.enabled OR NOT e.enabled);
    UPDATE weir.schedules AS u
    SET cron = e.cron, zone = e.zone, every_ms = e.every_ms, misfire = e.misfire, misfire_cap = e.misfire_cap, enabled = e.enabled,
      job = e.job, override = s.override, fence = u.fence + 1, next_at = CASE WHEN v_keeps THEN u.next_at ELSE e.next_at END
    WHERE u.name = e.name;
    what := 'changed';
    RETURN NEXT;
  END LOOP;
END
$$;
