-- rotate_drop: drop an empty partition. $1 parent, $2 name. DROP locks the parent, the leaf and the default partition
-- against everybody. DETACH … CONCURRENTLY would not, but Postgres refuses it where there is a default partition. So
-- the parent is waited for 50 ms (every enqueue behind us waits as long, SQLSTATE 55P03 after it); with it in hand only
-- a vacuum can hold the others, and they are waited for 5 ms each. Returns false if a row has
-- arrived meanwhile, or if it is gone already.
CREATE FUNCTION weir.rotate_drop_v1(p_parent text, p_leaf text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_found boolean;
BEGIN
  PERFORM set_config('lock_timeout', '50ms', true);
  EXECUTE format('LOCK TABLE ONLY weir.%I IN ACCESS EXCLUSIVE MODE', p_parent);
  IF to_regclass(format('weir.%I', p_leaf)) IS NULL THEN -- another was quicker
    RETURN false;
  END IF;
  PERFORM set_config('lock_timeout', '5ms', true);
  EXECUTE format('LOCK TABLE weir.%I IN ACCESS EXCLUSIVE MODE', p_leaf);
  EXECUTE format('SELECT EXISTS (SELECT FROM weir.%I)', p_leaf) INTO v_found;
  IF v_found THEN
    RETURN false;
  END IF;
  EXECUTE format('DROP TABLE weir.%I', p_leaf);
  RETURN true;
END
$$;
