-- enqueue_json: enqueue for drivers that know text alone (database/sql, lib/pq). $1 a JSON array of objects with the
-- fields below; payload is the text of the payload, so that its bytes stay as they are. Returns enqueue's row, with
-- the instants as microseconds since 1970 and the duplicates as text.
CREATE FUNCTION weir.enqueue_json_v1(p_jobs text)
RETURNS TABLE (db_now_us bigint, inserted bigint, least_ready_us bigint, duplicates text)
LANGUAGE sql VOLATILE
AS $$
  WITH args AS (
    SELECT array_agg(id ORDER BY n) AS a1, array_agg(kind ORDER BY n) AS a2, array_agg(queue ORDER BY n) AS a3,
      array_agg(payload ORDER BY n) AS a4, array_agg(priority ORDER BY n) AS a5, array_agg(max_attempts ORDER BY n) AS a6,
      array_agg(delay_ms ORDER BY n) AS a7, array_agg(scheduled ORDER BY n) AS a8, array_agg(expires_ms ORDER BY n) AS a9,
      array_agg(timeout_ms ORDER BY n) AS a10, array_agg(backoff ORDER BY n) AS a11, array_agg(tags ORDER BY n) AS a12,
      array_agg(metadata ORDER BY n) AS a13, array_agg(trace ORDER BY n) AS a14, array_agg(parent ORDER BY n) AS a15
    FROM ROWS FROM (json_to_recordset(p_jobs::json) AS (id uuid, kind text, queue text, payload text, priority smallint,
      max_attempts int, delay_ms bigint, scheduled timestamptz, expires_ms bigint, timeout_ms bigint, backoff text,
      tags text, metadata text, trace text, parent uuid)) WITH ORDINALITY AS j (id, kind, queue, payload, priority,
      max_attempts, delay_ms, scheduled, expires_ms, timeout_ms, backoff, tags, metadata, trace, parent, n)
  )
  SELECT (extract(epoch FROM e.db_now) * 1000000)::bigint, e.inserted, (extract(epoch FROM e.least_ready) * 1000000)::bigint,
    array_to_string(e.duplicates, ',')
  FROM args, weir.enqueue_v1(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, false) AS e
$$;
