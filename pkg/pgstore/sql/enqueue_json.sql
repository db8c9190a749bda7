-- enqueue_json: enqueue for drivers that know text alone (database/sql, lib/pq). $1 a JSON array of objects with the
-- fields below; payload is the text of the payload, so that its bytes stay as they are. $2 further flags of their live rows.
-- Returns enqueue's row, with the instants as microseconds since 1970 and the duplicates as text. The arrays run in step, since
-- all are gathered in one pass over the rows, and these come in the order of the JSON: an ORDER BY in each would sort 1,000 jobs
-- 20 times, for 14 ms.
CREATE FUNCTION weir.enqueue_json_v1(p_jobs text, p_flags smallint DEFAULT 0)
RETURNS TABLE (db_now_us bigint, inserted bigint, least_ready_us bigint, duplicates text)
LANGUAGE sql VOLATILE
AS $$
  WITH args AS (
    SELECT array_agg(id) AS a1, array_agg(kind) AS a2, array_agg(queue) AS a3,
      array_agg(payload) AS a4, array_agg(priority) AS a5, array_agg(max_attempts) AS a6,
      array_agg(delay_ms) AS a7, array_agg(scheduled) AS a8, array_agg(expires_ms) AS a9,
      array_agg(timeout_ms) AS a10, array_agg(backoff) AS a11, array_agg(tags) AS a12,
      array_agg(metadata) AS a13, array_agg(trace) AS a14, array_agg(parent) AS a15,
      array_agg(keys) AS a16, array_agg(key_limits) AS a17, array_agg(rates) AS a18,
      nullif(array_agg(mode), array_fill(NULL::smallint, ARRAY[count(*)::int])) AS a19, array_agg(failure_kind) AS a20
    FROM json_to_recordset(p_jobs::json) AS j (id uuid, kind text, queue text, payload text, priority smallint,
      max_attempts int, delay_ms bigint, scheduled timestamptz, expires_ms bigint, timeout_ms bigint, backoff text,
      tags text, metadata text, trace text, parent uuid, keys text, key_limits text, rates text, mode smallint, failure_kind text)
  )
  SELECT (extract(epoch FROM e.db_now) * 1000000)::bigint, e.inserted, (extract(epoch FROM e.least_ready) * 1000000)::bigint,
    array_to_string(e.duplicates, ',')
  FROM args, weir.enqueue_v1(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, false, a16, a17, a18, a19, a20, p_flags) AS e
$$;
