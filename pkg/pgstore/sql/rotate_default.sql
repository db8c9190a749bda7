-- rotate_default: log rows with ids before $2 leave the default partition, once they have been there since before $3
-- (so that their ids are remembered for the whole retention) and if no live job needs them or jobs_kept has them. $1 id
-- after which to look, $4 most rows looked at. Locks SKIP LOCKED; log rows are never updated, so the conditions of
-- this one snapshot hold (see rotate_empty for what can happen later). Returns the last id, rows looked at and deleted.
CREATE FUNCTION weir.rotate_default_v1(p_after uuid, p_to uuid, p_before timestamptz, p_limit int)
RETURNS TABLE (last_id uuid, seen bigint, gone bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
  RETURN QUERY
  WITH page AS (
    SELECT d.id, d.enqueued_at FROM weir.jobs_default AS d
    WHERE d.id > p_after AND d.id < p_to
    ORDER BY d.id LIMIT p_limit
  ), over AS (
    SELECT d.id FROM page AS p JOIN weir.jobs_default AS d ON d.id = p.id
    WHERE p.enqueued_at < p_before
      AND (NOT EXISTS (SELECT FROM weir.live AS l WHERE l.id = p.id) OR EXISTS (SELECT FROM weir.jobs_kept AS k WHERE k.id = p.id))
    FOR UPDATE OF d SKIP LOCKED
  ), deleted AS (
    DELETE FROM weir.jobs_default AS d USING over AS x WHERE d.id = x.id RETURNING d.id
  )
  SELECT (SELECT p.id FROM page AS p ORDER BY p.id DESC LIMIT 1), (SELECT count(*) FROM page), (SELECT count(*) FROM deleted);
END
$$;
