package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

func TestABinaryStartsOnItsOwnAndTheNextReleasesSchema(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	cfg := migrate.Config{Schema: testenv.Namespace(t)}
	check := func() (e *migrate.VersionError) {
		err := migrate.Check(bounded(t), pool, cfg)
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("got %v", err)
		}
		return e
	}
	before := check()
	if before == nil || before.Current != 0 || !errors.Is(before, pgstore.ErrNoSchema) || !strings.Contains(before.Error(), "-> run: weir migrate up") {
		t.Errorf("before: %v", before)
	}
	if s := status(t, pool, cfg); s.Current != 0 || s.Latest != migrate.Latest || !slices.Equal(s.Pending, []int64{1}) || len(s.Applied) > 0 {
		t.Errorf("status before: %+v", s)
	}
	began := dbNow(t, pool)
	up(t, pool, cfg)
	if err := check(); err != nil {
		t.Errorf("after: %v", err)
	}
	s := status(t, pool, cfg)
	if s.Current != migrate.Latest || len(s.Pending) > 0 || len(s.Applied) != 1 || s.Applied[0].Version != 1 || s.Applied[0].At.Before(began) {
		t.Errorf("status after: %+v", s)
	}

	record := `INSERT INTO ` + cfg.Schema + `.migrations (version) VALUES (%d)`
	execSQL(t, pool, fmt.Sprintf(record, migrate.Newest))
	if err := check(); err != nil {
		t.Errorf("with the next release's: %v", err)
	}
	if applied := up(t, pool, cfg); len(applied) > 0 {
		t.Errorf("applied %v to the next release's", applied)
	}
	execSQL(t, pool, fmt.Sprintf(record, migrate.Newest+1))
	after := check()
	if after == nil || after.Current != migrate.Newest+1 || errors.Is(after, pgstore.ErrNoSchema) || !strings.Contains(after.Error(), "newer release") {
		t.Errorf("with the one after that: %v", after)
	}
}

func TestAProcessOfAnotherEnvironmentIsRefused(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	schema := testenv.Namespace(t)
	in := func(environment string) migrate.Config {
		return migrate.Config{Schema: schema, Environment: environment}
	}
	refused := func(do func(context.Context, *pgxpool.Pool, migrate.Config) error, as, got string) {
		t.Helper()
		var e *migrate.EnvironmentError
		err := do(bounded(t), pool, in(as))
		if !errors.As(err, &e) || e.Got != got || e.Want != as || !strings.Contains(err.Error(), "->") {
			t.Errorf("as %q: got %v", as, err)
		}
	}
	upAs := func(ctx context.Context, pool *pgxpool.Pool, cfg migrate.Config) error {
		_, err := migrate.Up(ctx, pool, cfg)
		return err
	}

	up(t, pool, in("")) // nobody says one
	if err := migrate.Check(bounded(t), pool, in("")); err != nil {
		t.Error(err)
	}
	refused(migrate.Check, "staging", "")
	up(t, pool, in("production")) // the first who says one
	if err := migrate.Check(bounded(t), pool, in("production")); err != nil {
		t.Error(err)
	}
	refused(migrate.Check, "staging", "production")
	refused(upAs, "staging", "production")
	if err := migrate.Check(bounded(t), pool, in("")); err != nil {
		t.Errorf("who says none is not checked: %v", err)
	}
	if s := status(t, pool, in("staging")); s.Environment != "production" {
		t.Errorf("the environment is %q", s.Environment)
	}
}

func TestAnotherEnvironmentsPendingVersionsAreNotApplied(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	cfg := migrate.Config{Schema: testenv.Namespace(t), Environment: "production"}
	execSQL(t, pool, `CREATE SCHEMA `+cfg.Schema+` CREATE TABLE migrations (version bigint PRIMARY KEY,
		applied_at timestamptz NOT NULL DEFAULT now(), environment text NOT NULL DEFAULT '');
		INSERT INTO `+cfg.Schema+`.migrations (version, environment) VALUES (0, 'production')`)
	var e *migrate.EnvironmentError
	_, err := migrate.Up(bounded(t), pool, migrate.Config{Schema: cfg.Schema, Environment: "staging"})
	if !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
	if s := status(t, pool, cfg); s.Current != 0 {
		t.Errorf("at version %d", s.Current)
	}
	if applied := up(t, pool, cfg); !slices.Equal(applied, []int64{1}) {
		t.Errorf("its own environment applied %v", applied)
	}
}

func TestAStatusThatCannotBeReadIsNoVersion(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Schema(t)
	cfg := migrate.Config{Schema: schema}
	stranger := testenv.Namespace(t)
	execSQL(t, pool, `CREATE ROLE `+stranger)
	t.Cleanup(func() { dropRole(t, pool, stranger) })
	var v *migrate.VersionError
	err := migrate.Check(bounded(t), as(t, stranger), cfg)
	if err == nil || errors.As(err, &v) || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %v", err)
	}
}
