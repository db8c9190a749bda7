-- served: the queues that live workers serve and that are not paused, each with the kinds that those workers know and
-- that are not paused. Processes of one fleet say the same: they are made one before their arrays are taken apart.
CREATE FUNCTION weir.served_v1() RETURNS TABLE (queue text, kinds text[])
LANGUAGE sql STABLE
AS $$
  SELECT q.name, array_agg(DISTINCT k.name)
  FROM (SELECT DISTINCT s.queues, s.kinds FROM weir.sessions AS s WHERE s.dead_at IS NULL AND s.lease_until > statement_timestamp()) AS f,
    unnest(f.queues) AS q (name), unnest(f.kinds) AS k (name)
  WHERE NOT EXISTS (SELECT FROM weir.queues AS p WHERE p.name = q.name AND p.paused_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM weir.kinds AS p WHERE p.name = k.name AND p.paused_at IS NOT NULL)
  GROUP BY q.name
$$;
