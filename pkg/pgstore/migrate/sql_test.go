package migrate_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

func TestTheScriptMakesTheSameSchemaAsUp(t *testing.T) {
	t.Parallel()
	pool := utc(t)
	byUp := migrate.Config{Schema: testenv.Namespace(t), Environment: "test", Partitions: pgstore.Hour}
	up(t, pool, byUp)
	cases := []struct {
		name string
		run  func(*testing.T, *pgxpool.Pool, string) error
	}{
		{"sent whole in a transaction", runWhole},
		{"by psql -1", runPSQL},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			byScript := byUp
			byScript.Schema = testenv.Namespace(t)
			if err := c.run(t, pool, script(t, 0, byScript)); err != nil {
				t.Fatal(err)
			}
			if err := migrate.Check(bounded(t), pool, byScript); err != nil {
				t.Error(err)
			}
			if applied := up(t, pool, byScript); len(applied) > 0 {
				t.Errorf("up finds %v left to do", applied)
			}
			got, want := catalog(t, pool, byScript.Schema), catalog(t, pool, byUp.Schema)
			if len(want) < 100 {
				t.Errorf("only %d objects", len(want))
			}
			if len(got) != len(want) {
				t.Errorf("got %d objects, want %d", len(got), len(want))
			}
			for _, only := range without(want, got) {
				t.Errorf("only up makes: %s", only)
			}
			for _, only := range without(got, want) {
				t.Errorf("only the script makes: %s", only)
			}
		})
	}
}

func TestAScriptForAnotherVersionOrEnvironmentChangesNothing(t *testing.T) {
	t.Parallel()
	pool := utc(t)
	cfg := migrate.Config{Schema: testenv.Namespace(t), Environment: "production"}
	up(t, pool, cfg)
	before := catalog(t, pool, cfg.Schema)
	err := runWhole(t, pool, script(t, 0, cfg))
	if err == nil || !strings.Contains(err.Error(), "is at version 1, this script goes on from version 0") {
		t.Errorf("a second run: got %v", err)
	}
	if after := catalog(t, pool, cfg.Schema); !slices.Equal(after, before) {
		t.Errorf("it has changed: %v", without(after, before))
	}

	execSQL(t, pool, `DELETE FROM `+cfg.Schema+`.migrations WHERE version > 0`)
	other := cfg
	other.Environment = "staging"
	err = runWhole(t, pool, script(t, 0, other))
	if err == nil || !strings.Contains(err.Error(), `belongs to environment "production"`) {
		t.Errorf("another environment: got %v", err)
	}
	if s := status(t, pool, cfg); s.Environment != "production" {
		t.Errorf("the environment is now %q", s.Environment)
	}
}

func TestAScriptIsOnlyForVersionsThatThereAre(t *testing.T) {
	t.Parallel()
	if got := script(t, migrate.Latest, migrate.Config{}); !strings.HasPrefix(got, "-- ") || strings.Count(got, "\n") != 1 {
		t.Errorf("nothing to do: got %q", got)
	}
	for _, from := range []int64{-1, migrate.Latest + 1} {
		if err := migrate.SQL(&bytes.Buffer{}, from, migrate.Config{}); err == nil || !strings.Contains(err.Error(), "from") {
			t.Errorf("from %d: got %v", from, err)
		}
	}
	if err := migrate.SQL(&bytes.Buffer{}, 0, migrate.Config{Schema: "A"}); err == nil {
		t.Error("a bad name is accepted")
	}
	if err := migrate.SQL(full{}, 0, migrate.Config{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: got %v", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func script(t *testing.T, from int64, cfg migrate.Config) string {
	t.Helper()
	var b strings.Builder
	if err := migrate.SQL(&b, from, cfg); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func runWhole(t *testing.T, pool *pgxpool.Pool, script string) error {
	return pgx.BeginFunc(bounded(t), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(bounded(t), script, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

func runPSQL(t *testing.T, _ *pgxpool.Pool, script string) error {
	bin, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("no psql on PATH")
	}
	file := filepath.Join(t.TempDir(), "weir.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(bounded(t), bin, "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", file, testenv.Postgres(t)).CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return nil
}

// present is what follows from the moment at which partitions are made.
var present = regexp.MustCompile(`_[0-9]{10}\b|FROM \('.*'\) TO \('.*'\)`)

// catalog describes all that a schema has, sorted, with its name and the time taken out.
func catalog(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	list := column(t, pool, `
		SELECT concat_ws(' ', 'column', table_name, ordinal_position, column_name, data_type, is_nullable, column_default)
		FROM information_schema.columns WHERE table_schema = $1
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = $1
		UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = $1::regnamespace
		UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace
		UNION ALL SELECT pg_get_viewdef(oid) FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'v'
		UNION ALL SELECT concat_ws(' ', relname, relkind, relispartition, reloptions, pg_get_expr(relpartbound, oid)) FROM pg_class WHERE relnamespace = $1::regnamespace
		UNION ALL SELECT concat_ws(' ', 'version', version, environment) FROM `+schema+`.migrations`, schema)
	for i := range list {
		list[i] = present.ReplaceAllString(strings.ReplaceAll(list[i], schema, "SCHEMA"), "")
	}
	slices.Sort(list)
	return list
}

// without returns what a has and b has not.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
