-- recover: give away what dead sessions ran. $1 further sessions without a row (orphan_sessions), $2 at most so many, $3 how
-- long in ms a job that is due at once keeps its locks.
-- Every round looks at all dead sessions (rescan): a claim may commit after its session was marked. The attempt is
-- given back and a crash counted: first due at once, second after 15 s, third buried. Rows are locked SKIP LOCKED, the
-- fence rises, so what the old process still writes is refused. Lock rows go by job and old fence; those of a job that is
-- due at once become its reservation, so that it keeps its place. Returns a row a job: its new state, NULL = due again, the
-- locks that are free now, and of a failure job what bury says.
CREATE FUNCTION weir.recover_v1(p_orphans uuid[], p_limit int, p_reserve_ms bigint)
RETURNS TABLE (job_id uuid, job_kind text, job_queue text, job_attempt int, job_crashes smallint, was uuid, final smallint, due timestamptz, freed text[],
  failure_kind text, failure uuid, refused text)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  r record;
BEGIN
  FOR r IN
    SELECT l.id, l.session, l.fence, l.kind, l.queue, l.attempt, l.crashes, l.flags, l.claimed_at, l.keys
    FROM (SELECT s.id FROM weir.sessions AS s WHERE s.dead_at IS NOT NULL UNION ALL SELECT unnest(p_orphans)) AS d
    JOIN weir.live AS l ON l.session = d.id AND l.state = 1
    LIMIT p_limit FOR UPDATE OF l SKIP LOCKED
  LOOP
    job_id := r.id; job_kind := r.kind; job_queue := r.queue; job_attempt := r.attempt - 1;
    job_crashes := r.crashes + 1; was := r.session; final := NULL; due := NULL; freed := NULL; failure_kind := NULL; failure := NULL; refused := NULL;
    IF r.flags & 20 <> 0 OR job_crashes >= 3 THEN
      final := CASE WHEN r.flags & 20 <> 0 THEN 2 ELSE 1 END;
      SELECT b.failure_kind, b.failure, b.refused FROM weir.bury_v1(r.session, ARRAY[r.id], ARRAY[r.fence], ARRAY[final],
        ARRAY[(extract(epoch FROM clock_timestamp() - r.claimed_at) * 1000)::bigint], ARRAY['crashed'],
        ARRAY[CASE WHEN final = 2 THEN 'cancelled; its process died' ELSE 'its process died 3 times' END],
        NULL, ARRAY[1]) AS b
      INTO failure_kind, failure, refused;
      freed := r.keys;
    ELSE
      UPDATE weir.live AS l
      SET state = 0, session = NULL, claimed_at = NULL, fence = l.fence + 1, attempt = l.attempt - 1, crashes = job_crashes,
        ready_at = clock_timestamp() + CASE WHEN job_crashes = 1 THEN interval '0' ELSE interval '15 s' END,
        flags = l.flags & ~8::smallint
      WHERE l.id = r.id AND l.fence = r.fence AND l.session = r.session
      RETURNING l.ready_at INTO due;
      IF r.keys IS NULL THEN
        NULL;
      ELSIF job_crashes = 1 THEN
        UPDATE weir.locks AS k SET fence = r.fence + 1, until = clock_timestamp() + p_reserve_ms * interval '1 ms'
        WHERE k.job_id = r.id AND k.fence = r.fence;
      ELSE
        DELETE FROM weir.locks AS k WHERE k.job_id = r.id AND k.fence = r.fence;
        freed := r.keys;
      END IF;
      INSERT INTO weir.attempts (ended_at, started_at, attempt, fence, job_id, session, outcome, error)
      VALUES (clock_timestamp(), coalesce(r.claimed_at, clock_timestamp()), r.attempt, r.fence, r.id, r.session, 'crashed', 'its process died');
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
