-- id_floor: the least id of an instant; the bounds of the partitions of jobs. The epoch is taken from an interval: that of a
-- timestamptz is not immutable to Postgres, and the function would not be inlined.
CREATE FUNCTION weir.id_floor(at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT (lpad(to_hex(floor(extract(epoch FROM at - timestamptz 'epoch') * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$$;
