-- rotate_empty: truncate a partition whose time is over. $1 its name; $2 and $3, for a partition of jobs, the ids of
-- its range (from, exclusive to). TRUNCATE locks the leaf alone, not the parent; it is given up after 50 ms (55P03).
-- A log row that a live job needs must be in jobs_kept. That is looked at under a lock which stops writers to this
-- leaf (an enqueue or a delete with an old id) but no reader, since it may take a while; the lock that stops readers
-- comes after it. What can happen in between: a job ends (needs nothing more) or is revived (revive puts its row into
-- jobs_kept by itself). An enqueue with an id of this range that waits for us finds the leaf empty: the id is forgotten,
-- as it is after any retention, and the row is a new job's. rotate_drop then leaves the leaf, and it is emptied again
-- in its turn; one that comes after the drop lies in the default partition (rotate_default).
-- Returns false if a row is still to be carried over, or if the partition is gone.
CREATE FUNCTION weir.rotate_empty_v1(p_leaf text, p_from uuid, p_to uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
  v_needed boolean;
BEGIN
  PERFORM set_config('lock_timeout', '50ms', true);
  IF p_from IS NOT NULL THEN
    EXECUTE format('LOCK TABLE weir.%I IN SHARE ROW EXCLUSIVE MODE', p_leaf);
    EXECUTE format($q$
      SELECT EXISTS (
        SELECT FROM weir.live AS l
        WHERE l.id >= $1 AND l.id < $2
          AND NOT EXISTS (SELECT FROM weir.jobs_kept AS k WHERE k.id = l.id)
          AND EXISTS (SELECT FROM weir.%I AS j WHERE j.id = l.id))
      $q$, p_leaf)
    USING p_from, p_to INTO v_needed;
    IF v_needed THEN
      RETURN false;
    END IF;
  END IF;
  EXECUTE format('TRUNCATE weir.%I', p_leaf);
  RETURN true;
EXCEPTION WHEN undefined_table THEN -- another has dropped it
  RETURN false;
END
$$;
