-- moved: a row of an answer that says that a lock $1 went from one job to another; NULL: it was free, or is.
CREATE FUNCTION weir.moved_v1(p_key text, p_out uuid, p_in uuid) RETURNS weir.keyed_v1
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
  r weir.keyed_v1;
BEGIN
  r.what := 9; r.key := p_key; r.other := p_out; r.id := p_in;
  RETURN r;
END
$$;
