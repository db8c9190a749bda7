-- idle_keys: locks with room for a job that is blocked on them: a limit was raised, or nobody passed them on. $1 lock after which
-- to look, $2 at most so many lines are looked at. A loose scan of live_line: whoever may start is the first, within the limit,
-- of the line of the first of its locks as well. No locks. Returns those found, and where to go on: NULL at the end.
CREATE FUNCTION weir.idle_keys_v1(p_after text, p_limit int, OUT keys text[], OUT next text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
BEGIN
  keys := '{}'; next := p_after;
  FOR i IN 1 .. p_limit LOOP
    next := (SELECT l.keys[1] FROM weir.live AS l WHERE l.state = 2 AND l.keys[1] > next ORDER BY l.keys[1] LIMIT 1);
    EXIT WHEN next IS NULL;
    IF EXISTS (SELECT FROM weir.heads_v1(next, 1)) THEN
      keys := keys || next;
    END IF;
  END LOOP;
END
$$;
