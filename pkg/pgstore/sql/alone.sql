-- alone: which candidates of a claim have one lock that nobody holds, waits for or could start with, writes their lock rows
-- and returns where their live rows are, which it has locked: for claim to make them run. They need no admission: nobody is
-- before them, and Redis has nothing to say. $1 all candidates of the claim, $2 those for which slots are kept.
-- Whatever comes between the look and the lock row is younger, or was not committed when this job was looked at; it sees this one in the
-- line and is not alone itself, and for the row the first to write it wins. One with several locks in this very claim may be
-- before it (batchOrder), so then all are left to admit; so they are while anybody waits for several, or an entry of limits may count.
-- Locks live rows, SKIP LOCKED, then lock rows, by key, as admit does. Indexes live_line, live_next, locks.
CREATE FUNCTION weir.alone_v1(p_cands uuid[], p_alone uuid[]) RETURNS tid[]
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_ids uuid[]; v_tids tid[]; v_keys text[]; v_fences int[];
BEGIN
  IF EXISTS (SELECT FROM weir.limits) OR EXISTS (SELECT FROM weir.waits) THEN
    RETURN NULL;
  END IF;
  SELECT array_agg(c.id) FILTER (WHERE c.rates IS NULL AND c.crashes < 2 AND c.id = ANY (p_alone)
      AND (SELECT k.slot FROM weir.locks AS k WHERE k.key = c.keys[1] LIMIT 1) IS NULL -- scalars: they cannot become joins
      AND (SELECT b.state FROM weir.live AS b WHERE b.state = 2 AND b.keys[1] = c.keys[1] LIMIT 1) IS NULL
      AND (SELECT b.state FROM weir.live AS b WHERE b.state = 0 AND b.keys IS NOT NULL AND b.keys[1] = c.keys[1] OFFSET 1 LIMIT 1) IS NULL)
  FROM unnest(p_cands) AS i (id) JOIN weir.live AS c ON c.id = ANY (ARRAY[i.id])
  HAVING bool_and(cardinality(c.keys) = 1) -- NULL: it has rates alone
  INTO v_ids;
  IF v_ids IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT array_agg(y.id), array_agg(y.ctid), array_agg(y.keys[1]), array_agg(y.fence) FROM (
    SELECT l.id, l.ctid, l.keys, l.fence FROM unnest(v_ids) AS i (id) JOIN weir.live AS l ON l.id = ANY (ARRAY[i.id])
    WHERE l.state + 0 = 0 AND l.ready_at <= statement_timestamp() AND l.crashes < 2
      AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())
    FOR UPDATE OF l SKIP LOCKED) AS y
  INTO v_ids, v_tids, v_keys, v_fences;
  WITH put AS (
    INSERT INTO weir.locks AS k (key, slot, job_id, fence)
    SELECT w.key, 0, w.id, w.fence + 1 FROM unnest(v_ids, v_keys, v_fences) AS w (id, key, fence)
    ORDER BY w.key
    ON CONFLICT DO NOTHING
    RETURNING k.job_id
  )
  SELECT array_agg(w.tid) FROM put AS p JOIN unnest(v_ids, v_tids) AS w (id, tid) ON w.id = p.job_id INTO v_tids;
  RETURN v_tids;
END
$$;
