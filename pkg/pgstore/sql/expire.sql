-- expire: unstarted jobs whose time has passed end as expired. $1 at most so many. Index live_expiring.
-- Locks SKIP LOCKED: a job that is being claimed at this moment was in time. Returns a row a job, with
-- the locks that it had or waited for, and its rates with its last fence: what it may have reserved in Redis.
CREATE FUNCTION weir.expire_v1(p_limit int) RETURNS TABLE (job_id uuid, job_kind text, job_queue text, freed text[], last_fence int, rates text[])
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
  v_ids uuid[]; v_fences int[]; v_kinds text[]; v_queues text[]; v_rates text[];
BEGIN
  SELECT array_agg(x.id ORDER BY x.id), array_agg(x.fence ORDER BY x.id), array_agg(x.kind ORDER BY x.id),
    array_agg(x.queue ORDER BY x.id), array_agg(to_json(x.rates)::text ORDER BY x.id) -- as JSON: arrays of several lengths
  FROM (
    SELECT l.id, l.fence, l.kind, l.queue, l.rates FROM weir.live AS l
    WHERE l.expires_at < statement_timestamp() AND l.state <> 1
    ORDER BY l.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED) AS x
  INTO v_ids, v_fences, v_kinds, v_queues, v_rates;
  IF v_ids IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY
  SELECT i.id, i.kind, i.queue, b.freed, i.fence, CASE WHEN i.rates IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(i.rates::json)) END -- not from dead: this statement's snapshot does not see what bury has just written there
  FROM weir.bury_v1(NULL, v_ids, v_fences, array_fill(3::smallint, ARRAY[cardinality(v_ids)]), NULL, NULL,
    array_fill('expired before it could start'::text, ARRAY[cardinality(v_ids)]), NULL, NULL) AS b
  JOIN unnest(v_ids, v_fences, v_kinds, v_queues, v_rates) AS i (id, fence, kind, queue, rates) ON i.id = b.job_id;
END
$$;
