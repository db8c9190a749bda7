-- sync_limits: make the entries of limits that a YAML file owns those of its list. The arrays run in step: keys or prefixes,
-- whether a prefix, whether of a rate, numbers, windows in ms (NULL: none). An entry that was made by hand becomes the file's; one
-- that replaced the file's by hand ('override') stays. Locks the table against other writers, not against readers. Returns
-- what changed, removed entries included.
CREATE FUNCTION weir.sync_limits_v1(p_keys text[], p_prefixes boolean[], p_rates boolean[], p_slots int[], p_per_ms bigint[])
RETURNS TABLE (o_key text, o_prefix boolean, o_rate boolean)
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  LOCK TABLE weir.limits IN SHARE ROW EXCLUSIVE MODE;
  RETURN QUERY
  DELETE FROM weir.limits AS l
  WHERE l.owner = 'config' AND NOT EXISTS (
    SELECT FROM unnest(p_keys, p_prefixes, p_rates) AS i (key, prefix, rate)
    WHERE i.key = l.key AND i.prefix = l.prefix AND i.rate = l.rate)
  RETURNING l.key, l.prefix, l.rate;
  RETURN QUERY
  INSERT INTO weir.limits AS l (key, prefix, rate, slots, per_ms, owner)
  SELECT i.key, i.prefix, i.rate, i.slots, i.per_ms, 'config'
  FROM unnest(p_keys, p_prefixes, p_rates, p_slots, p_per_ms) AS i (key, prefix, rate, slots, per_ms)
  ON CONFLICT (key, prefix, rate) DO UPDATE SET slots = excluded.slots, per_ms = excluded.per_ms, owner = 'config'
  WHERE l.owner <> 'override' AND (l.slots, l.per_ms, l.owner) IS DISTINCT FROM (excluded.slots, excluded.per_ms, excluded.owner)
  RETURNING l.key, l.prefix, l.rate;
END
$$;
