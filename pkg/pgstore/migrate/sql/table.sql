-- table: the schema and its table of versions, if missing. Needs the advisory lock: two that create a schema at once
-- get a unique violation, IF NOT EXISTS or not. Row 0 holds the environment, once somebody has said one.
DO $do$
BEGIN
  -- Asked first: CREATE SCHEMA demands the right to create schemas even when there is nothing to do.
  IF to_regnamespace('"weir"') IS NULL THEN
    CREATE SCHEMA "weir";
  END IF;
  IF to_regclass('weir.migrations') IS NULL THEN
    CREATE TABLE weir.migrations (
      version     bigint      NOT NULL PRIMARY KEY,
      applied_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
      environment text        NOT NULL DEFAULT ''
    );
  END IF;
END
$do$;
INSERT INTO weir.migrations AS m (version, environment) VALUES (0, ':environment')
ON CONFLICT (version) DO UPDATE SET environment = excluded.environment
WHERE m.environment = '' AND excluded.environment <> ''
