-- record: version :version is applied. Does nothing if another starter has recorded it. Primary key.
INSERT INTO weir.migrations (version, environment)
SELECT :version, coalesce((SELECT environment FROM weir.migrations WHERE version = 0), '')
ON CONFLICT (version) DO NOTHING
