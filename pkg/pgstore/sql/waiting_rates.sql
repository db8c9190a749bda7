-- waiting_rates: the rates of those of $1 that are live and have any, as they are stored, with their fences: what they may have
-- reserved in Redis. Primary key. No locks.
SELECT l.id, l.fence, l.rates FROM weir.live AS l WHERE l.id = ANY ($1::uuid[]) AND l.rates IS NOT NULL
