-- line_keys: keys that some job is blocked on as the first of its keys, in order. p_after behind this key, p_limit at most
-- so many. A loose scan of live_line: one step for each key, however long its line is. No locks.
CREATE FUNCTION weir.line_keys_v1(p_after text, p_limit int) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
  v_key text COLLATE "C" := p_after;
BEGIN
  FOR i IN 1 .. p_limit LOOP
    SELECT l.keys[1] FROM weir.live AS l WHERE l.state = 2 AND l.keys[1] > v_key ORDER BY l.keys[1] LIMIT 1 INTO v_key;
    EXIT WHEN v_key IS NULL;
    RETURN NEXT v_key;
  END LOOP;
END
$$;
