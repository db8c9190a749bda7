-- queue_granted: jobs of a queue with a rate were started, in the transaction that holds its row. $1 queue, $2 how many. What
-- has left the window is forgotten.
CREATE FUNCTION weir.queue_granted_v1(p_queue text, p_jobs int) RETURNS void
LANGUAGE sql VOLATILE
AS $$
  UPDATE weir.queues AS q
  SET granted_at = array_append(x.at, clock_timestamp()), granted = array_append(x.n, p_jobs)
  FROM (
    SELECT array_agg(g.at) AS at, array_agg(g.n) AS n
    FROM weir.queues AS o, unnest(o.granted_at, o.granted) AS g (at, n)
    WHERE o.name = p_queue AND g.at > clock_timestamp() - o.rate_ms * interval '1 ms') AS x
  WHERE q.name = p_queue AND q.rate IS NOT NULL
$$;
