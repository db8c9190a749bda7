package migrate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/pkg/pgstore"
)

// VersionError reports a schema that this binary does not work with. One that is too old, or not there, is also a
// pgstore.ErrNoSchema.
type VersionError struct {
	Schema         string
	Current        int64 // 0: there is no such schema, or nothing in it
	Oldest, Newest int64 // what this binary works with
}

// Error says what is wrong and what to do.
func (e *VersionError) Error() string {
	works := fmt.Sprintf("this binary works with versions %d to %d", e.Oldest, e.Newest)
	switch {
	case e.Current == 0:
		return fmt.Sprintf("schema %q is not installed -> run: weir migrate up", e.Schema)
	case e.Current < e.Oldest:
		return fmt.Sprintf("schema %q is at version %d, %s -> run: weir migrate up", e.Schema, e.Current, works)
	default:
		return fmt.Sprintf("schema %q is at version %d, %s -> run a newer release of weir here", e.Schema, e.Current, works)
	}
}

// Unwrap returns pgstore.ErrNoSchema unless the schema is too new.
func (e *VersionError) Unwrap() error {
	if e.Current < e.Oldest {
		return pgstore.ErrNoSchema
	}
	return nil
}

// EnvironmentError reports a schema that belongs to another environment than the one configured.
type EnvironmentError struct {
	Schema string
	Got    string // the schema's; empty: nobody has said one
	Want   string // the configuration's
}

// Error says what is wrong and what to do.
func (e *EnvironmentError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("schema %q has no environment yet, this process is configured for %q -> run: weir migrate up", e.Schema, e.Want)
	}
	return fmt.Sprintf("schema %q belongs to environment %q, this process is configured for %q -> check the database's address and environment",
		e.Schema, e.Got, e.Want)
}

// Check tells a process at its start whether it may work on the schema: it returns a *VersionError or an
// *EnvironmentError if not, and another error if the schema could not be read. It changes nothing.
func Check(ctx context.Context, pool *pgxpool.Pool, cfg Config) error {
	m, err := newMigrator(pool, cfg, known)
	if err != nil {
		return err
	}
	s, err := m.status(ctx)
	if err != nil {
		return err
	}
	if s.Current < Oldest || s.Current > Newest {
		return &VersionError{Schema: m.cfg.Schema, Current: s.Current, Oldest: Oldest, Newest: Newest}
	}
	return m.checkEnvironment(s.Environment)
}

// checkEnvironment refuses another word than the configured one. A schema without any is refused as well: it may be
// the other environment's, which has not said so.
func (m *migrator) checkEnvironment(stored string) error {
	if m.cfg.Environment == "" || m.cfg.Environment == stored {
		return nil
	}
	return &EnvironmentError{Schema: m.cfg.Schema, Got: stored, Want: m.cfg.Environment}
}
