-- rotate_add: attach a partition so that nobody waits for long. $1 parent, $2 name, $3 and $4 bounds as text, $5 its
-- key column, $6 whether rows can arrive in the range already. Attaching reads the whole default partition under a lock
-- that stops whoever writes there, unless a constraint (rotate_guard) says that the range has no row in it.
-- Returns 0 if the partition was there, 1 if it was made, 2 if the default partition has rows of the range, which then
-- stays with it, 3 if the default partition is too large to be read under the lock: guard it first.
CREATE FUNCTION weir.rotate_add_v1(p_parent text, p_name text, p_from text, p_to text, p_column text, p_present boolean)
RETURNS int
LANGUAGE plpgsql VOLATILE
SET jit = off
AS $$
DECLARE
  v_default text := p_parent || '_default';
  v_size bigint := pg_relation_size(format('weir.%I', v_default));
  v_guarded boolean := EXISTS (SELECT FROM pg_constraint AS c
    WHERE c.conrelid = format('weir.%I', v_default)::regclass AND c.conname = p_name || '_guard' AND c.convalidated);
  v_found boolean;
  v_made boolean;
BEGIN
  IF to_regclass(format('weir.%I', p_name)) IS NOT NULL THEN
    RETURN 0;
  END IF;
  PERFORM set_config('lock_timeout', '50ms', true);
  IF p_present THEN
    -- An insert that has chosen the default partition and waits for it while we attach would fail (23514). This lock
    -- lets all inserts under way end, and those to come choose anew. They stand behind it, and then behind the 50 ms for
    -- the default partition: together less than 100 ms.
    PERFORM set_config('lock_timeout', '30ms', true);
    EXECUTE format('LOCK TABLE weir.%I IN SHARE ROW EXCLUSIVE MODE', p_parent);
    PERFORM set_config('lock_timeout', '50ms', true);
  END IF;
  IF v_size > 0 AND NOT v_guarded THEN
    -- Only ids can lie in the future and have an index there. What ends now is no later than now.
    IF p_present OR p_column = 'id' THEN
      EXECUTE format('SELECT EXISTS (SELECT FROM weir.%I WHERE %I >= %L AND %I < %L)', v_default, p_column, p_from, p_column, p_to)
      INTO v_found;
      IF v_found THEN
        RETURN 2;
      END IF;
    END IF;
    IF v_size > 16 * 1024 * 1024 THEN -- read in some 10 ms
      RETURN 3;
    END IF;
  END IF;
  v_made := weir.add_partition_v1(p_parent, p_name, p_from, p_to);
  IF v_guarded THEN
    EXECUTE format('ALTER TABLE weir.%I DROP CONSTRAINT %I', v_default, p_name || '_guard');
  END IF;
  RETURN v_made::int;
END
$$;
