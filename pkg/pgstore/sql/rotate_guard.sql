-- rotate_guard: $5 true: make a constraint that keeps the range of partition $2 out of the default partition of $1 ($3
-- and $4 its bounds as text, $6 its key column); it is not yet validated. False: take it away. Danger: while it is
-- there and the partition is not, rows of the range are refused. So it is made only half a day and more before the
-- range begins, and whoever rotates takes away one whose time draws near.
CREATE FUNCTION weir.rotate_guard_v1(p_parent text, p_name text, p_from text, p_to text, p_make boolean, p_column text)
RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  PERFORM set_config('lock_timeout', '50ms', true);
  EXECUTE format('ALTER TABLE weir.%I DROP CONSTRAINT IF EXISTS %I', p_parent || '_default', p_name || '_guard');
  IF p_make THEN
    EXECUTE format('ALTER TABLE weir.%I ADD CONSTRAINT %I CHECK (NOT (%I IS NOT NULL AND %I >= %L AND %I < %L)) NOT VALID',
      p_parent || '_default', p_name || '_guard', p_column, p_column, p_from, p_column, p_to);
  END IF;
END
$$;
