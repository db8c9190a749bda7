-- heads: the oldest jobs of a lock's line that may start now by this snapshot: with a lock row free for them in the line of each
-- of their keys. $1 key, $2 at most so many. It looks at the first fifty of the line, and no further than four that have no
-- room in a row: jobs mostly agree about the number. No locks; live_line, waits, locks.
CREATE FUNCTION weir.heads_v1(p_key text, p_limit int) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE
AS $$
DECLARE
  r record;
  v_entries boolean := EXISTS (SELECT FROM weir.limits);
  v_rows int := (SELECT count(*) FROM weir.locks AS k WHERE k.key = p_key);
  v_older int := 0; v_full int := 0; v_found int := 0; v_own int; v_may boolean;
BEGIN
  FOR r IN
    SELECT x.id, x.line_at, x.keys, x.key_limits, x.queue, x.kind FROM (
      (SELECT l.id, l.line_at, l.keys, l.key_limits, l.queue, l.kind FROM weir.live AS l
        WHERE l.state = 2 AND l.keys[1] = p_key AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())
        ORDER BY l.line_at, l.id)
      UNION ALL
      (SELECT l.id, w.line_at, l.keys, l.key_limits, l.queue, l.kind FROM weir.waits AS w JOIN weir.live AS l ON l.id = ANY (ARRAY[w.job_id])
        WHERE w.key = p_key AND l.state + 0 = 2 AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())
        ORDER BY w.line_at, w.job_id)) AS x
    ORDER BY x.line_at, x.id
    LIMIT 50
  LOOP
    CONTINUE WHEN NOT weir.runnable_v1(r.queue, r.kind);
    v_own := coalesce(r.key_limits[array_position(r.keys, p_key)], 1);
    IF v_rows + v_older >= (CASE WHEN v_entries THEN weir.limit_of(p_key, v_own) ELSE v_own END) THEN
      v_full := v_full + 1;
      EXIT WHEN v_full >= 4;
    ELSE
      v_full := 0;
      v_may := cardinality(r.keys) = 1 OR NOT EXISTS (
        SELECT FROM unnest(r.keys, r.key_limits) AS u (key, own),
          LATERAL (SELECT CASE WHEN v_entries THEN weir.limit_of(u.key, coalesce(u.own, 1)) ELSE coalesce(u.own, 1) END AS n) AS m
        WHERE u.key <> p_key
          AND (SELECT count(*) FROM weir.locks AS k WHERE k.key = u.key) + weir.ahead_v1(u.key, r.line_at, r.id, m.n) >= m.n);
      IF v_may THEN
        v_found := v_found + 1;
        RETURN NEXT r.id;
        EXIT WHEN v_found >= p_limit;
      END IF;
    END IF;
    v_older := v_older + 1; -- also one that waits for another of its keys: it stands in all lines
  END LOOP;
END
$$;
