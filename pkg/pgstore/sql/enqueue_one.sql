-- enqueue: a job from any language, a trigger or psql, in the caller's transaction and with the caller's rights. It
-- starts within half a second of the commit while a sweeper and Redis are up. Returns its id; weir.ulid() shows it.
-- With a unique_key it is the only job of its kind with that key, while 'live' or only 'waiting', and at least for unique_for;
-- if there is one, on_conflict says 'keep' (its id is returned), 'replace' (one that waits ends as cancelled) or 'fail' (WE003).
-- Errors have SQLSTATE 22023 and name the argument and its limit. An instant that is past means now.
CREATE FUNCTION weir.enqueue(
  kind text, payload json DEFAULT '{}', queue text DEFAULT 'default', priority int DEFAULT 5,
  delay interval DEFAULT NULL, scheduled_at timestamptz DEFAULT NULL, expires_in interval DEFAULT NULL,
  max_attempts int DEFAULT 25, timeout interval DEFAULT NULL, backoff text DEFAULT NULL,
  tags text[] DEFAULT NULL, metadata json DEFAULT NULL, id uuid DEFAULT NULL, mode text DEFAULT NULL,
  keys text[] DEFAULT NULL, key_limits int[] DEFAULT NULL, rates text[] DEFAULT NULL, on_discard text DEFAULT NULL,
  unique_key text DEFAULT NULL, unique_for interval DEFAULT NULL, unique_while text DEFAULT 'live', on_conflict text DEFAULT 'keep'
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
AS $$
#variable_conflict use_variable
DECLARE
  v_id uuid := coalesce(id, weir.new_id());
  v_wrong text; v_said json;
  v_last constant timestamptz := '9999-12-31 00:00:00+00';
  v_wait constant text := '([0-9]+(\.[0-9]+)?(us|ms|s|m|h))+';
  v_rate constant text := '^([1-9][0-9]{0,5})/(([0-9]{1,8}(\.[0-9]{1,8})?(us|ms|s|m|h))+)(/([1-9][0-9]{0,5}))? (.+)$'; -- N/PER/WEIGHT NAME
BEGIN
  v_wrong := CASE
    WHEN kind IS NULL OR kind !~ '^[A-Za-z0-9_.:/-]{1,128}$' THEN 'kind: want 1 to 128 characters of A-Z a-z 0-9 _ . : / -'
    WHEN queue IS NULL OR octet_length(queue) NOT BETWEEN 1 AND 128 OR queue ~ '[[:cntrl:]]' THEN 'queue: want 1 to 128 bytes without control characters'
    WHEN payload IS NULL OR octet_length(payload::text) > 1048576 THEN 'payload: want JSON of at most 1048576 bytes'
    WHEN priority IS NULL OR priority NOT BETWEEN 1 AND 9 THEN 'priority: want 1 to 9'
    WHEN max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND 10000 THEN 'max_attempts: want 1 to 10000'
    WHEN mode NOT IN ('inline', 'forked', 'spawned') THEN 'mode: want inline, forked or spawned'
    WHEN delay NOT BETWEEN interval '0' AND interval '7000 years' THEN 'delay: want 0 to 7000 years'
    WHEN delay IS NOT NULL AND scheduled_at IS NOT NULL THEN 'delay: not together with scheduled_at'
    WHEN scheduled_at > v_last THEN 'scheduled_at: want an instant up to 9999-12-31 UTC'
    WHEN expires_in NOT BETWEEN interval '0' AND interval '7000 years' THEN 'expires_in: want 0 to 7000 years'
    WHEN greatest(scheduled_at, clock_timestamp() + coalesce(delay, '0')) + expires_in > v_last THEN 'expires_in: want an end up to 9999-12-31 UTC'
    WHEN timeout NOT BETWEEN interval '1 ms' AND interval '100 years' THEN 'timeout: want 1 ms to 100 years'
    WHEN id = '00000000-0000-0000-0000-000000000000' OR id > weir.id_floor(clock_timestamp() + interval '10 min')
      THEN 'id: want a ULID of at most 10 min from now'
    WHEN on_discard !~ '^[A-Za-z0-9_.:/-]{1,128}$' THEN 'on_discard: want 1 to 128 characters of A-Z a-z 0-9 _ . : / -'
    WHEN octet_length(unique_key) NOT BETWEEN 1 AND 255 OR starts_with(unique_key, 'weir' || '.')
      THEN 'unique_key: want 1 to 255 bytes, not beginning with "weir" and a dot'
    WHEN unique_key IS NULL AND unique_for IS NOT NULL THEN 'unique_for: want a unique_key too'
    WHEN unique_for NOT BETWEEN interval '1 ms' AND interval '3650 days' THEN 'unique_for: want 1 ms to 3650 days'
    WHEN unique_while IS NULL OR unique_while NOT IN ('live', 'waiting') THEN 'unique_while: want live or waiting'
    WHEN on_conflict IS NULL OR on_conflict NOT IN ('keep', 'replace', 'fail') THEN 'on_conflict: want keep, replace or fail'
  END;
  IF v_wrong IS NULL AND (backoff IS NOT NULL OR tags IS NOT NULL OR metadata IS NOT NULL) THEN -- dearer to look at, and rare
    v_wrong := CASE
      WHEN octet_length(backoff) > 64 OR backoff !~ ('^(poly|exp ' || v_wait || ' ' || v_wait || '|fixed ' || v_wait || ')$')
        THEN 'backoff: want "poly", "exp BASE CAP" or "fixed WAIT"'
      WHEN backoff <> 'poly' AND EXISTS (
        SELECT FROM unnest((string_to_array(backoff, ' '))[2:]) AS w WHERE w::interval NOT BETWEEN interval '1 ms' AND interval '24 h')
        THEN 'backoff: want waits of 1ms to 24h'
      WHEN backoff LIKE 'exp %' AND split_part(backoff, ' ', 2)::interval > split_part(backoff, ' ', 3)::interval
        THEN 'backoff: want BASE at most CAP'
      WHEN cardinality(tags) > 32 THEN 'tags: want at most 32'
      WHEN EXISTS (SELECT FROM unnest(tags) AS t WHERE t IS NULL OR octet_length(t) NOT BETWEEN 1 AND 128 OR t ~ '[[:cntrl:]]')
        THEN 'tags: want each of 1 to 128 bytes without control characters'
      WHEN json_typeof(metadata) <> 'object' THEN 'metadata: want a JSON object'
      WHEN metadata::text ~ '\\u0000' THEN 'metadata: want no \u0000'
      WHEN (SELECT count(*) FROM json_object_keys(metadata)) > 32 THEN 'metadata: want at most 32 entries'
      WHEN EXISTS (
        SELECT FROM json_each(metadata) AS m JOIN json_each_text(metadata) AS t ON t.key = m.key
        WHERE json_typeof(m.value) <> 'string' OR octet_length(m.key) NOT BETWEEN 1 AND 128 OR m.key ~ '[[:cntrl:]]'
          OR octet_length(t.value) > 1024 OR t.value ~ '[[:cntrl:]]')
        THEN 'metadata: want names of 1 to 128 bytes and texts of at most 1024 bytes, without control characters'
    END;
  END IF;
  IF v_wrong IS NULL AND (keys IS NOT NULL OR rates IS NOT NULL OR key_limits IS NOT NULL) THEN
    v_wrong := CASE
      WHEN coalesce(cardinality(keys), 0) + coalesce(cardinality(rates), 0) > 8 THEN 'keys: want at most 8, rates included'
      WHEN EXISTS (SELECT FROM unnest(keys) AS k WHERE k IS NULL OR octet_length(k) NOT BETWEEN 1 AND 255 OR starts_with(k, 'weir' || '.'))
        THEN 'keys: want each of 1 to 255 bytes, not beginning with "weir" and a dot'
      WHEN (SELECT count(DISTINCT k COLLATE "C") FROM unnest(keys) AS k) < cardinality(keys) THEN 'keys: want each once'
      WHEN key_limits IS NOT NULL AND cardinality(key_limits) <> coalesce(cardinality(keys), 0) THEN 'key_limits: want as many as keys'
      WHEN EXISTS (SELECT FROM unnest(key_limits) AS n WHERE n IS NULL OR n NOT BETWEEN 1 AND 100000) THEN 'key_limits: want each of 1 to 100000'
      WHEN EXISTS (SELECT FROM unnest(rates) AS r WHERE r IS NULL OR r !~ v_rate OR octet_length(r) > 400)
        THEN 'rates: want each as "N/PER NAME" or "N/PER/WEIGHT NAME", such as "100/1s stripe"'
    END;
  END IF;
  IF v_wrong IS NULL AND rates IS NOT NULL THEN
    SELECT CASE
        WHEN bool_or(octet_length(m[8]) > 255 OR starts_with(m[8], 'weir' || '.')) THEN 'rates: want names of 1 to 255 bytes, not beginning with "weir" and a dot'
        WHEN count(DISTINCT m[8] COLLATE "C") < count(*) THEN 'rates: want each name once'
        WHEN bool_or(m[1]::int > 100000) THEN 'rates: want N from 1 to 100000'
        WHEN bool_or(m[2]::interval NOT BETWEEN interval '1 ms' AND interval '24 h' OR extract(epoch FROM m[2]::interval) * 1000 % 1 <> 0)
          THEN 'rates: want PER in whole milliseconds from 1ms to 24h'
        WHEN bool_or(coalesce(m[7], '1')::int > m[1]::int) THEN 'rates: want WEIGHT from 1 to N'
      END,
      array_agg(m[1] || '/' || (extract(epoch FROM m[2]::interval) * 1000)::bigint || '/' || coalesce(m[7], '1') || ' ' || m[8] ORDER BY m[8] COLLATE "C")
    FROM (SELECT regexp_match(r, v_rate) AS m FROM unnest(rates) AS r) AS x
    INTO v_wrong, rates;
  END IF;
  scheduled_at := CASE WHEN scheduled_at < 'epoch' THEN 'epoch' ELSE scheduled_at END; -- past is past; not every client can read all of it
  IF v_wrong IS NOT NULL THEN
    RAISE EXCEPTION 'enqueue: %', v_wrong USING ERRCODE = '22023';
  END IF;
  IF keys IS NOT NULL THEN -- in the order of their bytes, as every job has them
    SELECT array_agg(k ORDER BY k COLLATE "C"), CASE WHEN max(n) > 1 THEN array_agg(coalesce(n, 1) ORDER BY k COLLATE "C") END
    FROM unnest(keys, key_limits) AS x (k, n) INTO keys, key_limits;
  END IF;
  key_limits := CASE WHEN keys IS NOT NULL THEN key_limits END;
  IF unique_key IS NOT NULL THEN
    v_said := (SELECT e.said::json->0 FROM weir.enqueue_unique_v1(json_build_array(json_build_object(
      'id', v_id, 'kind', kind, 'queue', queue, 'payload', payload::text, 'priority', priority, 'max_attempts', max_attempts,
      'delay_ms', ceil(extract(epoch FROM delay) * 1000)::bigint, 'scheduled', scheduled_at,
      'expires_ms', ceil(extract(epoch FROM expires_in) * 1000)::bigint, 'timeout_ms', ceil(extract(epoch FROM timeout) * 1000)::bigint,
      'backoff', backoff, 'tags', to_json(tags)::text, 'metadata', metadata::text, 'keys', keys::text, 'key_limits', key_limits::text,
      'rates', rates::text, 'mode', CASE mode WHEN 'forked' THEN 1 WHEN 'spawned' THEN 2 END, 'failure_kind', on_discard,
      'known', id IS NOT NULL, 'unique_key', encode(sha256('\x6b657900'::bytea || convert_to(unique_key, 'UTF8')), 'hex'), -- as job.Unique.Hash
      'unique_for', ceil(extract(epoch FROM unique_for) * 1000)::bigint, 'unique_waiting', unique_while = 'waiting',
      'unique_replace', on_conflict = 'replace'))::text, 0) AS e);
    IF on_conflict = 'fail' AND (v_said->>'winner')::uuid <> v_id THEN
      RAISE EXCEPTION 'enqueue: the unique key belongs to job %', weir.ulid((v_said->>'winner')::uuid) USING ERRCODE = 'WE003';
    END IF;
    RETURN coalesce((v_said->>'winner')::uuid, v_id);
  END IF;
  PERFORM weir.enqueue_v1(ARRAY[v_id], ARRAY[kind], ARRAY[queue], ARRAY[payload::text], ARRAY[priority::smallint],
    ARRAY[max_attempts], ARRAY[ceil(extract(epoch FROM delay) * 1000)::bigint], ARRAY[scheduled_at],
    ARRAY[ceil(extract(epoch FROM expires_in) * 1000)::bigint], ARRAY[ceil(extract(epoch FROM timeout) * 1000)::bigint],
    ARRAY[backoff], ARRAY[to_json(tags)::text], ARRAY[metadata::text], NULL, NULL, id IS NULL,
    CASE WHEN keys IS NOT NULL THEN ARRAY[keys::text] END, CASE WHEN key_limits IS NOT NULL THEN ARRAY[key_limits::text] END,
    CASE WHEN rates IS NOT NULL THEN ARRAY[rates::text] END,
    p_modes => CASE mode WHEN 'forked' THEN ARRAY[1::smallint] WHEN 'spawned' THEN ARRAY[2::smallint] END,
    p_failures => CASE WHEN on_discard IS NOT NULL THEN ARRAY[on_discard] END);
  RETURN v_id;
END
$$;
