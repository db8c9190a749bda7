-- ahead: how many jobs are blocked on a lock before a place in its line, counted up to $4. $1 key, $2 and $3 the place. Those of
-- several locks stand in the lines of all of them: in that of the first by live_line, in the others by waits. What has
-- expired or cannot run holds no line. No locks.
CREATE FUNCTION weir.ahead_v1(p_key text, p_line_at timestamptz, p_id uuid, p_limit int) RETURNS int
LANGUAGE plpgsql STABLE
AS $$
BEGIN
  RETURN (SELECT count(*) FROM (
    (SELECT FROM weir.live AS l
      WHERE l.state = 2 AND l.keys[1] = p_key AND (l.line_at, l.id) < (p_line_at, p_id)
        AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp()) AND weir.runnable_v1(l.queue, l.kind)
      ORDER BY l.line_at, l.id LIMIT p_limit)
    UNION ALL
    (SELECT FROM weir.waits AS w JOIN weir.live AS l ON l.id = ANY (ARRAY[w.job_id])
      WHERE w.key = p_key AND (w.line_at, w.job_id) < (p_line_at, p_id) AND l.state + 0 = 2
        AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp()) AND weir.runnable_v1(l.queue, l.kind)
      ORDER BY w.line_at, w.job_id LIMIT p_limit)) AS x);
END
$$;
