-- now_micros: the database's time in microseconds since 1970, for drivers that know text and numbers alone.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
