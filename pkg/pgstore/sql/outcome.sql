-- outcome: how jobs ended, for those that have. $1 ids. No locks; indexes on id, each partition that retention leaves.
-- A function for its settings: for some hundred ids the planner would rather read all outcomes of the day.
CREATE FUNCTION weir.outcome_v1(p_ids uuid[])
RETURNS TABLE (id uuid, state text, fence int, session uuid, kind text, result json, error text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT o.id, 'completed'::text, o.fence, o.session, ''::text, o.result, NULL::text
  FROM weir.outcomes AS o WHERE o.id = ANY (p_ids)
  UNION ALL
  SELECT d.id, CASE d.state WHEN 1 THEN 'discarded' WHEN 2 THEN 'cancelled' ELSE 'expired' END, d.fence, d.session, d.kind,
    NULL::json, d.error
  FROM weir.dead AS d WHERE d.id = ANY (p_ids);
END
$$;
