-- enqueue: a job from any language, a trigger or psql, in the caller's transaction and with the caller's rights. It
-- starts within half a second of the commit while a sweeper and Redis are up. Returns its id; weir.ulid() shows it.
-- Errors have SQLSTATE 22023 and name the argument and its limit. An instant that is past means now.
CREATE FUNCTION weir.enqueue(
  kind text, payload json DEFAULT '{}', queue text DEFAULT 'default', priority int DEFAULT 5,
  delay interval DEFAULT NULL, scheduled_at timestamptz DEFAULT NULL, expires_in interval DEFAULT NULL,
  max_attempts int DEFAULT 25, timeout interval DEFAULT NULL, backoff text DEFAULT NULL,
  tags text[] DEFAULT NULL, metadata json DEFAULT NULL, id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
AS $$
#variable_conflict use_variable
DECLARE
  v_id uuid := coalesce(id, weir.new_id());
  v_wrong text;
  v_last constant timestamptz := '9999-12-31 00:00:00+00';
  v_wait constant text := '([0-9]+(\.[0-9]+)?(us|ms|s|m|h))+';
BEGIN
  v_wrong := CASE
    WHEN kind IS NULL OR kind !~ '^[A-Za-z0-9_.:/-]{1,128}$' THEN 'kind: want 1 to 128 characters of A-Z a-z 0-9 _ . : / -'
    WHEN queue IS NULL OR octet_length(queue) NOT BETWEEN 1 AND 128 OR queue ~ '[[:cntrl:]]' THEN 'queue: want 1 to 128 bytes without control characters'
    WHEN payload IS NULL OR octet_length(payload::text) > 1048576 THEN 'payload: want JSON of at most 1048576 bytes'
    WHEN priority IS NULL OR priority NOT BETWEEN 1 AND 9 THEN 'priority: want 1 to 9'
    WHEN max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND 10000 THEN 'max_attempts: want 1 to 10000'
    WHEN delay NOT BETWEEN interval '0' AND interval '7000 years' THEN 'delay: want 0 to 7000 years'
    WHEN delay IS NOT NULL AND scheduled_at IS NOT NULL THEN 'delay: not together with scheduled_at'
    WHEN scheduled_at > v_last THEN 'scheduled_at: want an instant up to 9999-12-31 UTC'
    WHEN expires_in NOT BETWEEN interval '0' AND interval '7000 years' THEN 'expires_in: want 0 to 7000 years'
    WHEN greatest(scheduled_at, clock_timestamp() + coalesce(delay, '0')) + expires_in > v_last THEN 'expires_in: want an end up to 9999-12-31 UTC'
    WHEN timeout NOT BETWEEN interval '1 ms' AND interval '100 years' THEN 'timeout: want 1 ms to 100 years'
    WHEN id = '00000000-0000-0000-0000-000000000000' OR id > weir.id_floor(clock_timestamp() + interval '10 min')
      THEN 'id: want a ULID of at most 10 min from now'
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
  scheduled_at := CASE WHEN scheduled_at < 'epoch' THEN 'epoch' ELSE scheduled_at END; -- past is past; not every client can read all of it
  IF v_wrong IS NOT NULL THEN
    RAISE EXCEPTION 'enqueue: %', v_wrong USING ERRCODE = '22023';
  END IF;
  PERFORM weir.enqueue_v1(ARRAY[v_id], ARRAY[kind], ARRAY[queue], ARRAY[payload::text], ARRAY[priority::smallint],
    ARRAY[max_attempts], ARRAY[ceil(extract(epoch FROM delay) * 1000)::bigint], ARRAY[scheduled_at],
    ARRAY[ceil(extract(epoch FROM expires_in) * 1000)::bigint], ARRAY[ceil(extract(epoch FROM timeout) * 1000)::bigint],
    ARRAY[backoff], ARRAY[to_json(tags)::text], ARRAY[metadata::text], NULL, NULL, id IS NULL);
  RETURN v_id;
END
$$;
