-- add_partition: $1 parent, $2 name, $3 and $4 the bounds as text. Made stand-alone and then attached: CREATE … PARTITION
-- OF would take an exclusive lock on the parent, and behind one long transaction elsewhere all enqueues would stand.
-- Attaching locks the default partition; it is given up after 50 ms (SQLSTATE 55P03), to be tried again.
-- Returns false if the partition was there already, also when another made it at this moment.
CREATE FUNCTION weir.add_partition_v1(p_parent text, p_name text, p_from text, p_to text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  IF to_regclass(format('weir.%I', p_name)) IS NOT NULL THEN
    RETURN false;
  END IF;
  PERFORM set_config('lock_timeout', '50ms', true);
  EXECUTE format('CREATE TABLE weir.%I (LIKE weir.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE)', p_name, p_parent);
  EXECUTE format('ALTER TABLE weir.%I ATTACH PARTITION weir.%I FOR VALUES FROM (%L) TO (%L)', p_parent, p_name, p_from, p_to);
  RETURN true;
EXCEPTION WHEN duplicate_table OR duplicate_object OR unique_violation THEN
  RETURN false;
END
$$;
