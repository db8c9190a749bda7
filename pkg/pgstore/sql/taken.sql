-- taken: the answer's rows of jobs that were set running a moment ago in this transaction. $1 ids. No locks; primary keys.
-- It pins nothing: only functions that do call it, and their settings are there when it is planned.
CREATE FUNCTION weir.taken_v1(p_ids uuid[]) RETURNS SETOF weir.keyed_v1
LANGUAGE plpgsql VOLATILE ROWS 100
AS $$
BEGIN
  RETURN QUERY
  SELECT 1::smallint, l.id, l.kind, l.queue, l.priority, l.attempt, l.max_attempts, l.crashes, l.fence, l.ready_at, l.claimed_at,
    l.expires_at, j.id IS NULL, j.payload, j.enqueued_at, j.scheduled_at, j.timeout_ms, j.backoff::text, j.tags, j.metadata,
    j.trace::text, j.parent_id, l.keys, l.key_limits, l.rates, l.mode, NULL::text, NULL::uuid, NULL::uuid[], NULL::boolean, NULL::timestamptz
  FROM unnest(p_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
    LEFT JOIN weir.jobs AS j ON j.id = ANY (ARRAY[l.id]);
END
$$;
