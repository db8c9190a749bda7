-- take_here: may a waiting job run in this process as it gets its locks by hand-over? Else it gets a reservation. $1 and $2 to $4
-- as gate says, then the job's. The same gate as claim's, and besides: no rate, whose turn only a claim asks for; no queue with a
-- limit for the whole fleet; none that killed two processes, of which a process takes one at a time; none that asks for a
-- mode, of which only a claim knows if it is accepted; and no better priority due. Whether a slot is kept for it is for the caller to know. No locks.
CREATE FUNCTION weir.take_here_v1(
  p_alive boolean, p_queues text[], p_kinds text[], p_limited text[],
  p_queue text, p_kind text, p_priority smallint, p_rates text[], p_crashes smallint, p_mode smallint
) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  RETURN p_alive AND p_queue = ANY (p_queues) AND p_kind = ANY (p_kinds) AND p_queue <> ALL (p_limited) AND p_rates IS NULL
    AND p_crashes < 2 AND p_mode = 0 AND NOT weir.better_due_v1(p_queue, p_priority, p_kinds);
END
$$;
