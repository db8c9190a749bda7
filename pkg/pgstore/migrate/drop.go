package migrate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Drop removes a schema and all that is in it, for tests: there is no way back. It waits ten seconds at most for each
// lock. A schema that is not there is no error.
func Drop(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if !schemaForm.MatchString(schema) {
		return fmt.Errorf("drop schema %.64q: want [a-z][a-z0-9_]{0,30}", schema)
	}
	_, err := pool.Exec(ctx, `SET lock_timeout = '10s'; SET client_min_messages = warning; DROP SCHEMA IF EXISTS `+
		pgx.Identifier{schema}.Sanitize()+` CASCADE; RESET lock_timeout; RESET client_min_messages`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return fmt.Errorf("drop schema %s: %w", schema, err)
	}
	return nil
}
