-- enqueue: a job from any language, a trigger or psql, in the caller's transaction and with the caller's rights. It
-- starts within half a second of the commit while a sweeper and Redis are up. Returns its id; weir.ulid() shows it.
-- Errors have SQLSTATE 22023 and name the argument and its limit.
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
BEGIN
  v_wrong := CASE
    WHEN kind IS NULL OR kind !~ '^[A-Za-z0-9_.:/-]{1,128}$' THEN 'kind: want 1 to 128 characters of A-Z a-z 0-9 _ . : / -'
    WHEN queue IS NULL OR octet_length(queue) NOT BETWEEN 1 AND 128 OR queue ~ '[[:cntrl:]]' THEN 'queue: want 1 to 128 bytes without control characters'
    WHEN payload IS NULL OR octet_length(payload::text) > 1048576 THEN 'payload: want JSON of at most 1048576 bytes'
    WHEN priority IS NULL OR priority NOT BETWEEN 1 AND 9 THEN 'priority: want 1 to 9'
    WHEN max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND 10000 THEN 'max_attempts: want 1 to 10000'
    WHEN delay < interval '0' THEN 'delay: want 0 or more'
    WHEN delay IS NOT NULL AND scheduled_at IS NOT NULL THEN 'delay: not together with scheduled_at'
    WHEN expires_in < interval '0' THEN 'expires_in: want 0 or more'
    WHEN timeout <= interval '0' THEN 'timeout: want more than 0'
    WHEN backoff !~ '^(poly|exp [0-9a-z.]+ [0-9a-z.]+|fixed [0-9a-z.]+)$' THEN 'backoff: want "poly", "exp BASE CAP" or "fixed WAIT"'
    WHEN cardinality(tags) > 32 THEN 'tags: want at most 32'
  END;
  IF v_wrong IS NOT NULL THEN
    RAISE EXCEPTION 'weir.enqueue: %', v_wrong USING ERRCODE = '22023';
  END IF;
  PERFORM weir.enqueue_v1(ARRAY[v_id], ARRAY[kind], ARRAY[queue], ARRAY[payload::text], ARRAY[priority::smallint],
    ARRAY[max_attempts], ARRAY[(extract(epoch FROM delay) * 1000)::bigint], ARRAY[scheduled_at],
    ARRAY[(extract(epoch FROM expires_in) * 1000)::bigint], ARRAY[(extract(epoch FROM timeout) * 1000)::bigint],
    ARRAY[backoff], ARRAY[to_json(tags)::text], ARRAY[metadata::text], NULL, NULL, id IS NULL);
  RETURN v_id;
END
$$;
