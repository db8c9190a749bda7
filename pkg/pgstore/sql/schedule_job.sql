-- schedule_job: enqueue the job of a schedule, in the caller's transaction. $1 name, $2 the tick, NULL when it is run by hand; the
-- job's metadata tells both. Its id is the database's own: no clock of another host has a say. Locks nothing: the caller holds
-- the row (pk). Returns the job, no row when there is no such schedule. is_delayed: it comes due later. duplicate: a unique key was taken, nothing was added.
CREATE FUNCTION weir.schedule_job_v1(p_name text, p_tick timestamptz)
RETURNS TABLE (job_id uuid, job_kind text, job_queue text, due timestamptz, is_delayed boolean, duplicate boolean)
LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
  v_job jsonb; v_inserted bigint; v_least bigint;
  v_form constant text := 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';
BEGIN
  SELECT s.job::jsonb FROM weir.schedules AS s WHERE s.name = p_name INTO v_job;
  IF v_job IS NULL THEN
    RETURN;
  END IF;
  job_id := weir.new_id(); job_kind := v_job ->> 'kind'; job_queue := v_job ->> 'queue';
  v_job := v_job || jsonb_build_object('id', job_id, 'metadata', (coalesce((v_job ->> 'metadata')::jsonb, '{}')
    || jsonb_build_object('weir_schedule', p_name, 'weir_tick', coalesce(to_char(p_tick AT TIME ZONE 'UTC', v_form), 'by hand')))::text);
  IF v_job ? 'unique_key' THEN
    SELECT e.inserted, e.least_ready_us, coalesce((e.said::json->0->>'winner')::uuid, job_id)
    FROM weir.enqueue_unique_v1(jsonb_build_array(v_job)::text, 200) AS e INTO v_inserted, v_least, job_id;
  ELSE
    SELECT e.inserted, e.least_ready_us FROM weir.enqueue_json_v1(jsonb_build_array(v_job)::text) AS e INTO v_inserted, v_least;
  END IF;
  duplicate := v_inserted = 0;
  is_delayed := v_job ? 'delay_ms';
  due := coalesce(to_timestamp(v_least / 1000000.0), clock_timestamp());
  RETURN NEXT;
END
$$;
