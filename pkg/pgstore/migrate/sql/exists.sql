-- exists: whether the table of versions is there. No locks.
SELECT to_regclass('weir.migrations') IS NOT NULL
