-- rotate_old: rows of the default partition of outcomes, dead or attempts ($1, $2 its time column) from before $3 are
-- deleted, out of the first $4 rows in the order in which they lie there: about the order of time, and no index has to
-- be kept for it. Waits 50 ms at most for another that deletes the same rows (55P03). Returns how many were deleted.
CREATE FUNCTION weir.rotate_old_v1(p_parent text, p_column text, p_before timestamptz, p_limit int) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET jit = off
SET lock_timeout = '50ms'
AS $$
DECLARE
  v_gone bigint;
BEGIN
  EXECUTE format($q$
    DELETE FROM weir.%1$I AS d
    WHERE d.%2$I < $1 AND d.ctid = ANY (ARRAY(
      SELECT x.place FROM (SELECT f.ctid AS place, f.%2$I AS at FROM weir.%1$I AS f LIMIT $2) AS x WHERE x.at < $1))
    $q$, p_parent || '_default', p_column)
  USING p_before, p_limit;
  GET DIAGNOSTICS v_gone = ROW_COUNT;
  RETURN v_gone;
END
$$;
