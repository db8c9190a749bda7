-- new_id: an id made by the database, for producers that have no client. Random within a millisecond.
-- Digits 13 and 17 of a random uuid are fixed by its version: they are left out.
CREATE FUNCTION weir.new_id() RETURNS uuid
LANGUAGE sql VOLATILE AS $$
  SELECT (lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
    || left(gen_random_uuid()::text, 8) || right(gen_random_uuid()::text, 12))::uuid
$$;
