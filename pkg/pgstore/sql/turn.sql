-- turn: may this transaction claim from a queue? At most eight do at once, since each passes what the others have locked or just
-- taken, so that sixty-four at once do less than four. Locks: one of eight advisory ones, till the transaction's end; they
-- are only tried, beginning at one by the backend's number.
CREATE FUNCTION weir.turn_v1(p_queue text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  FOR i IN 0 .. 7 LOOP
    IF pg_try_advisory_xact_lock(hashtextextended('weir.claim ' || p_queue, (pg_backend_pid() + i) % 8)) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;
