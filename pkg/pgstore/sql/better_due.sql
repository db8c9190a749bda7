-- better_due: is a job of a better priority due in a queue, of a kind that this process knows? Then a waiter of $2 may not start
-- ahead of it by hand-over: a chain of them would keep the slot for ever. One range a priority, of the last minute: what
-- lies dead at the beginning of a range is not passed each time. Every sixteenth call looks at all. No locks.
CREATE FUNCTION weir.better_due_v1(p_queue text, p_priority smallint, p_kinds text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_from timestamptz := CASE WHEN random() < 1.0 / 16 THEN '-infinity' ELSE statement_timestamp() - interval '1 min' END;
BEGIN
  -- One statement for all of them: to begin one costs more than the looks. (Scalar subqueries: they cannot become joins.)
  RETURN EXISTS (
    SELECT FROM generate_series(1, p_priority - 1) AS p
    WHERE (SELECT c.priority FROM weir.live AS c
        WHERE c.state = 0 AND c.flags & 1 = 0 AND c.queue = p_queue AND c.priority = p
          AND c.ready_at >= v_from AND c.ready_at <= statement_timestamp() AND c.kind = ANY (p_kinds) AND c.crashes < 2
          AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
        LIMIT 1) IS NOT NULL
      OR (SELECT c.priority FROM weir.live AS c
        WHERE c.state = 0 AND c.flags & 1 = 1 AND c.queue = p_queue AND c.priority = p
          AND c.ready_at >= v_from AND c.ready_at <= statement_timestamp() AND c.kind = ANY (p_kinds) AND c.crashes < 2
          AND (c.expires_at IS NULL OR c.expires_at > statement_timestamp())
        LIMIT 1) IS NOT NULL);
END
$$;
