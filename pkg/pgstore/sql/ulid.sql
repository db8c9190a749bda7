-- ulid: the text form of an id, 26 characters of Crockford's base 32; the other way round, ulid(text), in any case. A text
-- that is none is refused with 22P02.
CREATE FUNCTION weir.ulid(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', (substring(b FROM n * 5 + 1 FOR 5))::bit(5)::int + 1, 1), '' ORDER BY n)
  FROM (SELECT B'00' || ('x' || replace(id::text, '-', ''))::bit(128) AS b) bits, generate_series(0, 25) n
$$;
CREATE FUNCTION weir.ulid(t text) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT CASE WHEN t ~* '^[0-7][0-9A-HJKMNP-TV-Z]{25}$' THEN (
    SELECT string_agg(lpad(to_hex((substring(b FROM n * 8 + 3 FOR 8))::bit(8)::int), 2, '0'), '' ORDER BY n)::uuid
    FROM (
      SELECT string_agg((strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(upper(t), c, 1)) - 1)::bit(5)::text, '' ORDER BY c)::bit(130) AS b
      FROM generate_series(1, 26) c
    ) bits, generate_series(0, 15) n
  ) ELSE ('not a ULID: ' || t)::uuid END
$$;
