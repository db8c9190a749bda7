-- kept_ids: which of $1 have their log row in jobs_kept. A function for its settings: planned while jobs_kept was empty, the
-- look-up would read all of it for each id. Primary key. Returns an empty array when there is none.
CREATE FUNCTION weir.kept_ids_v1(p_ids uuid[]) RETURNS uuid[]
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
BEGIN
  RETURN ARRAY(SELECT k.id FROM weir.jobs_kept AS k WHERE k.id = ANY (p_ids));
END
$$;
