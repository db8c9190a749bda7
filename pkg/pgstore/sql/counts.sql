-- counts: depth of each queue and state into the table counts. $1 does nothing if another sweeper counted less than so
-- many ms ago; $2 up to so many pages of live are read. A larger table is sampled by pages and scaled: then figures are
-- estimates, except running jobs, and except small queues that the sample may miss, which are counted up to 1,000.
-- Cost is bounded by $2 (2,000 pages: up to 200,000 rows, some 0.1 to 0.3 s). Returns how many rows counts has, or -1: not counted.
CREATE FUNCTION weir.counts_v1(p_age_ms int, p_pages int) RETURNS int
LANGUAGE plpgsql VOLATILE
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_pages bigint := pg_relation_size('weir.live') / current_setting('block_size')::int;
  v_part float8 := least(1, p_pages::float8 / greatest(v_pages, 1));
BEGIN
  -- Held to the end of this transaction only, so a pooler does not mind. Two at once would lock rows in turn.
  IF NOT pg_try_advisory_xact_lock(hashtextextended('weir.counts', 0))
    OR EXISTS (SELECT FROM weir.counts AS c WHERE c.at > v_now - p_age_ms * interval '1 ms') THEN
    RETURN -1;
  END IF;
  EXECUTE format($q$
    INSERT INTO weir.counts AS c (queue, state, jobs, at)
    SELECT l.queue, CASE WHEN l.state > 0 OR l.ready_at <= $1 THEN l.state WHEN l.attempt > 0 THEN 4 ELSE 3 END,
      ceil(count(*) / $2), $1
    FROM weir.live AS l %s
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (queue, state) DO UPDATE SET jobs = excluded.jobs, at = excluded.at
    $q$, CASE WHEN v_part < 1 THEN format('TABLESAMPLE SYSTEM (%s)', v_part * 100) END)
  USING v_now, v_part;
  IF v_part < 1 THEN
    INSERT INTO weir.counts AS c (queue, state, jobs, at)
    SELECT l.queue, 1, count(*), v_now FROM weir.live AS l WHERE l.state = 1 GROUP BY 1 ORDER BY 1
    ON CONFLICT (queue, state) DO UPDATE SET jobs = excluded.jobs, at = excluded.at;
    INSERT INTO weir.counts AS c (queue, state, jobs, at)
    WITH RECURSIVE q AS (
      SELECT ''::text AS queue
      UNION ALL
      SELECT least( -- passes over a NULL
        (SELECT l.queue FROM weir.live AS l WHERE l.state = 0 AND l.flags & 1 = 0 AND l.queue > q.queue ORDER BY l.queue LIMIT 1),
        (SELECT l.queue FROM weir.live AS l WHERE l.state = 0 AND l.flags & 1 = 1 AND l.queue > q.queue ORDER BY l.queue LIMIT 1))
      FROM q WHERE q.queue IS NOT NULL
    )
    SELECT q.queue, x.state, x.jobs, v_now
    FROM q CROSS JOIN LATERAL (
      SELECT CASE WHEN y.ready_at <= v_now THEN 0 WHEN y.attempt > 0 THEN 4 ELSE 3 END AS state, count(*) AS jobs
      FROM (
        (SELECT l.ready_at, l.attempt FROM weir.live AS l WHERE l.state = 0 AND l.flags & 1 = 0 AND l.queue = q.queue LIMIT 1000)
        UNION ALL
        (SELECT l.ready_at, l.attempt FROM weir.live AS l WHERE l.state = 0 AND l.flags & 1 = 1 AND l.queue = q.queue LIMIT 1000)) AS y
      GROUP BY 1) AS x
    WHERE q.queue <> ''
    ORDER BY 1, 2
    ON CONFLICT (queue, state) DO UPDATE SET jobs = excluded.jobs, at = excluded.at WHERE c.at < excluded.at OR c.jobs < excluded.jobs;
  END IF;
  DELETE FROM weir.counts AS c WHERE c.at < v_now;
  UPDATE weir.counts AS c
  SET oldest = (
    SELECT min(x.ready_at) FROM generate_series(1, 9) AS p CROSS JOIN LATERAL (
      (SELECT l.ready_at FROM weir.live AS l
      WHERE l.state = 0 AND l.flags & 1 = 0 AND l.queue = c.queue AND l.priority = p
      ORDER BY l.ready_at LIMIT 1)
      UNION ALL
      (SELECT l.ready_at FROM weir.live AS l
      WHERE l.state = 0 AND l.flags & 1 = 1 AND l.queue = c.queue AND l.priority = p
      ORDER BY l.ready_at LIMIT 1)) AS x
    WHERE x.ready_at <= v_now)
  WHERE c.state = 0;
  RETURN (SELECT count(*) FROM weir.counts);
END
$$;
