-- fire: the ticks of schedules become jobs, each in the statement that moves its schedule on, so that each comes once whoever
-- fires it (tickOnce). Arrays run in step: $1 names, $2 fences as read, $3 next_at as read, $4 the next_at to come (NULL: never
-- again), $5 the tick, NULL to move on without a job. Several ticks of one schedule follow one another, each with the
-- next_at that the one before has set. A tick ahead of the database clock is left alone (notEarly), and so is a schedule that was
-- changed since it was read (fireFence), has fired meanwhile, is off, or is locked: nobody waits for another sweeper.
-- A job that is refused for its data moves its schedule on without a job and says why: it would be refused for ever.
-- Locks the schedules' rows (pk). Returns a row for each tick that it dealt with: its place in the arrays, the job if there is
-- one, and why there is none.
CREATE FUNCTION weir.fire_v1(p_names text[], p_fences int[], p_olds timestamptz[], p_news timestamptz[], p_ticks timestamptz[])
RETURNS TABLE (place int, job_id uuid, job_kind text, job_queue text, due timestamptz, is_delayed boolean, duplicate boolean, problem text)
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
  FOR i IN 1 .. cardinality(p_names) LOOP
    PERFORM FROM weir.schedules AS s
    WHERE s.name = p_names[i] AND s.next_at = p_olds[i] AND s.fence = p_fences[i] AND coalesce(s.override, s.enabled)
      AND greatest(p_ticks[i], p_olds[i]) <= clock_timestamp()
    FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    place := i; job_id := NULL; job_kind := NULL; job_queue := NULL; due := NULL; is_delayed := NULL; duplicate := NULL; problem := NULL;
    BEGIN
      IF p_ticks[i] IS NOT NULL THEN
        SELECT j.job_id, j.job_kind, j.job_queue, j.due, j.is_delayed, j.duplicate FROM weir.schedule_job_v1(p_names[i], p_ticks[i]) AS j
        INTO job_id, job_kind, job_queue, due, is_delayed, duplicate;
      END IF;
    EXCEPTION WHEN lock_not_available THEN
      CONTINUE; -- a transaction that is open has its unique key: the next round tries again
    WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded OR plpgsql_error
        OR triggered_action_exception OR external_routine_exception OR external_routine_invocation_exception OR with_check_option_violation THEN
      GET STACKED DIAGNOSTICS problem = MESSAGE_TEXT; -- not the detail, which quotes rows
      problem := left(problem, 500);
      job_id := NULL; job_kind := NULL; job_queue := NULL; due := NULL; is_delayed := NULL; duplicate := NULL;
    END;
    UPDATE weir.schedules AS s
    SET next_at = p_news[i],
      last_at = CASE WHEN p_ticks[i] IS NULL OR problem IS NOT NULL THEN s.last_at ELSE p_ticks[i] END,
      last_job = CASE WHEN job_id IS NULL OR duplicate THEN s.last_job ELSE job_id END,
      last_error = CASE WHEN p_ticks[i] IS NULL THEN s.last_error ELSE problem END
    WHERE s.name = p_names[i];
    RETURN NEXT;
  END LOOP;
END
$$;
