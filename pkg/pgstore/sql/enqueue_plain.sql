-- enqueue_plain: as enqueue_v1, for ids made for this call and jobs that are due at once and of which nothing else is said than
-- what stands here: most of all jobs, and 0.1 ms less for each call. It is no function, because the entry into one and its
-- two statements are what that time is, and it may be prepared, because nothing in it can be planned badly: no table is read.
-- An older client's goes on working while the columns named here keep their meaning and others have defaults.
-- The live row does not ask whether the log row was inserted, as liveFromLog wants: should the promise be broken nothing is stored
-- (23505). No row comes back if an id is more than 10 min ahead of the database clock: nothing was stored. Otherwise one a job:
-- when it was enqueued and so is due, and the database's time.
WITH i AS MATERIALIZED (
  SELECT u.id, u.kind, u.queue, u.payload, u.priority, u.max_attempts, u.timeout_ms, u.trace, u.parent, clock_timestamp() AS now
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::int[], $7::bigint[], $8::text[], $9::uuid[])
    AS u (id, kind, queue, payload, priority, max_attempts, timeout_ms, trace, parent)
  WHERE weir.id_floor(statement_timestamp() + interval '10 min') >= ALL ($1::uuid[])
), put AS ( -- runs after the main statement, since nothing reads it: as everywhere the log comes first, or two that send one id deadlock
  INSERT INTO weir.live (ready_at, max_attempts, size, priority, id, queue, kind)
  SELECT i.now, i.max_attempts, octet_length(i.payload), i.priority, i.id, i.queue, i.kind FROM i
)
INSERT INTO weir.jobs AS j (id, enqueued_at, timeout_ms, parent_id, max_attempts, priority, kind, queue, payload, trace)
SELECT i.id, i.now, i.timeout_ms, i.parent, i.max_attempts, i.priority, i.kind, i.queue, i.payload::json, i.trace FROM i
RETURNING j.enqueued_at, clock_timestamp()
