-- timing_out: an attempt passed its timeout and its handler has not returned: show it. $1 session, $2 ids, $3 fences.
UPDATE weir.live AS l
SET flags = l.flags | 8::smallint
FROM unnest($2::uuid[], $3::int[]) AS i (id, fence)
WHERE l.id = ANY (ARRAY[i.id]) AND l.fence = i.fence AND l.session IS NOT DISTINCT FROM $1
