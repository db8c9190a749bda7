-- guard: ends the script, and with it the transaction, if it was made for another version or another environment.
DO $do$
DECLARE
  v_version bigint := (SELECT max(version) FROM weir.migrations);
  v_environment text := (SELECT environment FROM weir.migrations WHERE version = 0);
BEGIN
  IF v_version <> :from THEN
    RAISE EXCEPTION 'schema "weir" is at version %, this script goes on from version :from', v_version
      USING HINT = format('make it anew: weir migrate sql --from %s', v_version);
  END IF;
  IF ':environment' NOT IN ('', v_environment) THEN
    RAISE EXCEPTION 'schema "weir" belongs to environment "%", this script was made for ":environment"', v_environment;
  END IF;
END
$do$
