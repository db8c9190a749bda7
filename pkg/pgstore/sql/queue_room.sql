-- queue_room: how many jobs of a queue with a limit for the whole fleet may start now. $1 queue. Takes the queue's row until
-- the end of the transaction, so that no two count at once; one that another has is not waited for: NULL. What runs is counted
-- in a statement after that, so that it sees all that was started under the row. Returns also when a rate has room again.
CREATE FUNCTION weir.queue_room_v1(p_queue text, OUT room int, OUT opens timestamptz)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
  q record;
BEGIN
  SELECT x.slots, x.rate, x.rate_ms, x.granted_at, x.granted FROM weir.queues AS x WHERE x.name = p_queue
  FOR UPDATE SKIP LOCKED INTO q;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  room := 2147483647;
  IF q.slots IS NOT NULL THEN
    room := q.slots - (SELECT count(*) FROM weir.live AS l WHERE l.state = 1 AND l.queue = p_queue);
  END IF;
  IF q.rate IS NOT NULL AND q.rate - coalesce((SELECT sum(g.n) FROM unnest(q.granted_at, q.granted) AS g (at, n)
      WHERE g.at > clock_timestamp() - q.rate_ms * interval '1 ms'), 0) < room THEN
    room := q.rate - coalesce((SELECT sum(g.n) FROM unnest(q.granted_at, q.granted) AS g (at, n)
      WHERE g.at > clock_timestamp() - q.rate_ms * interval '1 ms'), 0);
    SELECT min(g.at) + q.rate_ms * interval '1 ms' FROM unnest(q.granted_at) AS g (at)
    WHERE g.at > clock_timestamp() - q.rate_ms * interval '1 ms' INTO opens;
  END IF;
  room := greatest(room, 0);
END
$$;
