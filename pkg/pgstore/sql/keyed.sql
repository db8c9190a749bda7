-- keyed: the type in which admit, pass and finish_keyed answer. what says which of the rest count: 1 a job that runs now, 2
-- jobs that are blocked (others) and on what (keys, in step), 3 throttled jobs (others), 4 one left alone (id, queue, priority,
-- ready_at), 5 locks to pass on (keys), 6 the holders of a lock (key, others), 7 a reservation (id, queue, kind, ready_at), 8
-- jobs that were accepted (others), 9 a lock that went from other to id (key), 10 the last row (again, db_now), 11 locks that
-- became free (keys) and who had them (others, in step). Rows are dear, so what there is many of comes in arrays.
CREATE TYPE weir.keyed_v1 AS (
  what smallint,
  id uuid, kind text, queue text, priority smallint, attempt int, max_attempts int, crashes smallint, fence int,
  ready_at timestamptz, claimed_at timestamptz, expires_at timestamptz, missing boolean, payload json,
  enqueued_at timestamptz, scheduled_at timestamptz, timeout_ms bigint, backoff text, tags text[], metadata json,
  trace text, parent_id uuid, keys text[], key_limits int[], rates text[], mode smallint,
  key text, other uuid, others uuid[], again boolean, db_now timestamptz
);
