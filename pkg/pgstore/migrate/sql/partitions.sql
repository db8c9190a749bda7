-- partitions: the first ones, a :width each: of now on the database clock, and :ahead more. Named as
-- pgstore.PartitionName does. Counted on UTC timestamps without zone: a day of the session's zone may have 23 hours.
DO $do$
DECLARE
  v_now timestamp := date_trunc(':width', clock_timestamp() AT TIME ZONE 'UTC');
  v_step interval := '1 :width';
  v_stamp text := CASE ':width' WHEN 'day' THEN 'YYYYMMDD' WHEN 'hour' THEN 'YYYYMMDDHH24' ELSE 'YYYYMMDDHH24MI' END;
  v_from timestamp;
  v_to timestamp;
  v_parent text;
BEGIN
  FOR n IN 0 .. :ahead LOOP
    v_from := v_now + n * v_step;
    v_to := v_from + v_step;
    PERFORM weir.add_partition_v1('jobs', 'jobs_' || to_char(v_from, v_stamp),
      weir.id_floor(v_from AT TIME ZONE 'UTC')::text, weir.id_floor(v_to AT TIME ZONE 'UTC')::text);
    FOREACH v_parent IN ARRAY ARRAY['outcomes', 'dead', 'attempts'] LOOP
      PERFORM weir.add_partition_v1(v_parent, v_parent || '_' || to_char(v_from, v_stamp),
        to_char(v_from, 'YYYY-MM-DD HH24:MI:SS+00'), to_char(v_to, 'YYYY-MM-DD HH24:MI:SS+00'));
    END LOOP;
  END LOOP;
END
$do$
