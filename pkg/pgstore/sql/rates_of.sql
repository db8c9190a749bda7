-- rates_of: a job's rates as they count: an entry of the table limits, by name or else by the longest prefix, comes before
-- the job's own numbers, a weight that is more than the entry's number as all of it: it would never start. $1 as in
-- live.rates. No locks.
CREATE FUNCTION weir.rates_of(p_rates text[]) RETURNS text[]
LANGUAGE plpgsql STABLE
AS $$
BEGIN
  RETURN ARRAY(
    SELECT coalesce(
      (SELECT x.slots || '/' || x.per_ms || '/' || least(split_part(split_part(r.own, ' ', 1), '/', 3)::int, x.slots) || ' ' || n.name
        FROM weir.limits AS x
        WHERE x.rate AND (NOT x.prefix AND x.key = n.name OR x.prefix AND starts_with(n.name, x.key))
        ORDER BY x.prefix, octet_length(x.key) DESC LIMIT 1),
      r.own)
    FROM unnest(p_rates) WITH ORDINALITY AS r (own, n), substr(r.own, strpos(r.own, ' ') + 1) AS n (name)
    ORDER BY r.n);
END
$$;
