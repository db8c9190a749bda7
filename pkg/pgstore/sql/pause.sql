-- pause: $1 'queue' or 'kind', $2 name, $3 whether to pause or to resume. Returns whether something changed.
CREATE FUNCTION weir.pause_v1(p_what text, p_name text, p_pause boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  IF p_what = 'queue' THEN
    INSERT INTO weir.queues AS q (name, paused_at) VALUES (p_name, CASE WHEN p_pause THEN clock_timestamp() END)
    ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at WHERE (q.paused_at IS NULL) = p_pause;
  ELSE
    INSERT INTO weir.kinds AS k (name, paused_at) VALUES (p_name, CASE WHEN p_pause THEN clock_timestamp() END)
    ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at WHERE (k.paused_at IS NULL) = p_pause;
  END IF;
  RETURN FOUND;
END
$$;
