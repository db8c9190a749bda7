-- rate_hold: for how long a rate $1 is closed (job.RateBackoff), in seconds; no row: it is not. No locks; primary key.
SELECT extract(epoch FROM h.until - statement_timestamp())::float8 FROM weir.rate_holds AS h WHERE h.key = $1 AND h.until > statement_timestamp()
