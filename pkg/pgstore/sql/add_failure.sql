-- add_failure: the failure job of a job that bury has just written to dead as discarded. $1 its id; $2 the kind of the failure job.
-- It has the defaults of weir.enqueue, no failure job itself, and as payload what package job calls a Failure: not bounded by the
-- limit of a payload, since that of the discarded job must fit. What keeps it from being stored is said and hurts nobody: the
-- job has ended all the same. No locks; index dead_id. Returns its id, or why there is none.
CREATE FUNCTION weir.add_failure_v1(p_id uuid, p_kind text) RETURNS TABLE (failure uuid, refused text)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  v_payload text; v_trace text;
BEGIN
  SELECT json_build_object('id', weir.ulid(d.id), 'kind', d.kind, 'queue', d.queue, 'payload', d.payload, 'priority', d.priority,
      'attempt', d.attempt, 'max_attempts', d.max_attempts, 'crashes', d.crashes, 'tags', d.tags, 'metadata', d.metadata,
      'enqueued_at', d.enqueued_at, 'finished_at', d.finished_at, 'error', d.error,
      'stack', (SELECT a.stack FROM weir.attempts AS a WHERE a.job_id = d.id ORDER BY a.ended_at DESC LIMIT 1))::text, d.trace
  FROM weir.dead AS d WHERE d.id = p_id ORDER BY d.finished_at DESC LIMIT 1
  INTO v_payload, v_trace;
  IF p_kind !~ '^[A-Za-z0-9_.:/-]{1,128}$' THEN
    refused := 'its kind: want 1 to 128 characters of A-Z a-z 0-9 _ . : / -';
  ELSE
    failure := weir.new_id();
    BEGIN
      PERFORM weir.enqueue_v1(ARRAY[failure], ARRAY[p_kind], ARRAY['default'], ARRAY[v_payload], ARRAY[5::smallint], ARRAY[25],
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, ARRAY[v_trace], ARRAY[p_id], true);
    EXCEPTION
      WHEN transaction_rollback OR lock_not_available THEN
        RAISE; -- the whole is tried again
      WHEN OTHERS THEN
        failure := NULL; refused := left(SQLERRM, 1000);
    END;
  END IF;
  RETURN NEXT;
END
$$;
