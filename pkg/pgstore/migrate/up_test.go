package migrate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

func TestTenStartersAtOnceApplyEachVersionOnce(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		url  func(t *testing.T) string
		edit func(*pgxpool.Config)
	}{
		{"directly", direct, func(*pgxpool.Config) {}},
		{"each with a single connection", direct, func(c *pgxpool.Config) { c.MaxConns = 1 }},
		{"through PgBouncer in transaction mode", pooled, func(*pgxpool.Config) {}},
		{"where the role's transactions are serializable and impatient", direct, func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			c.ConnConfig.RuntimeParams["lock_timeout"] = "1ms"
			c.ConnConfig.RuntimeParams["search_path"] = "pg_temp"
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := c.url(t)
			cfg := migrate.Config{Schema: testenv.Namespace(t), Environment: "test"}
			ctx := bounded(t)
			var (
				wg    sync.WaitGroup
				start = make(chan struct{})
				done  [10][]int64
				errs  [10]error
			)
			for i := range done {
				pool := open(t, url, c.edit)
				wg.Go(func() {
					<-start
					done[i], errs[i] = migrate.Up(ctx, pool, cfg)
				})
			}
			close(start)
			wg.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatal(err)
			}
			if got := slices.Concat(done[:]...); !slices.Equal(got, []int64{1}) {
				t.Errorf("applied: got %v, want version 1 once", got)
			}
			pool := testenv.Pool(t, direct(t))
			if err := migrate.Check(ctx, pool, cfg); err != nil {
				t.Error(err)
			}
			if n := locksAtRest(t, pool, cfg.Schema); n != "0" {
				t.Errorf("%s advisory locks at rest", n)
			}
		})
	}
}

func direct(t *testing.T) string { return testenv.Postgres(t) }
func pooled(t *testing.T) string { return testenv.PgBouncer(t, testenv.Postgres(t)) }

func TestASchemaMayHaveAnyName(t *testing.T) {
	t.Parallel()
	// A database of its own: these names are not the test's alone.
	server := testenv.Postgres(t)
	admin := testenv.Pool(t, server)
	database := testenv.Namespace(t)
	execSQL(t, admin, `CREATE DATABASE `+database)
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), `DROP DATABASE `+database+` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	pool := open(t, server, func(c *pgxpool.Config) { c.ConnConfig.Database = database })
	for _, name := range []string{"weir", "user", "order", "select", "a", "public", "x_9", "n234567890123456789012345678901"} {
		cfg := migrate.Config{Schema: name, Environment: "test"}
		up(t, pool, cfg)
		if err := migrate.Check(bounded(t), pool, cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		tables := value(t, pool, `SELECT count(*)::text FROM pg_tables WHERE schemaname = $1`, name)
		if want := value(t, pool, `SELECT count(*)::text FROM pg_tables WHERE schemaname = 'weir'`); tables != want {
			t.Errorf("%s: got %s tables, want %s as in weir", name, tables, want)
		}
	}
}

func TestWhatTheSchemaHasIsNotTouchedAgain(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	cfg := migrate.Config{Schema: testenv.Namespace(t), Environment: "test"}
	up(t, pool, cfg)
	before := status(t, pool, cfg)

	// As a role that may do nothing but read, while somebody holds the migration lock and every table.
	reader := testenv.Namespace(t)
	execSQL(t, pool, `CREATE ROLE `+reader+`; GRANT USAGE ON SCHEMA `+cfg.Schema+` TO `+reader+`;
		GRANT SELECT ON `+cfg.Schema+`.migrations TO `+reader)
	t.Cleanup(func() { dropRole(t, pool, reader) })
	hold(t, pool, `SELECT pg_advisory_xact_lock(hashtextextended('"`+cfg.Schema+`".migrations', 0));
		LOCK TABLE `+cfg.Schema+`.live, `+cfg.Schema+`.jobs IN ACCESS EXCLUSIVE MODE;
		LOCK TABLE `+cfg.Schema+`.migrations IN EXCLUSIVE MODE`)
	if applied := up(t, as(t, reader), cfg); len(applied) > 0 {
		t.Errorf("applied %v again", applied)
	}
	if err := migrate.Check(bounded(t), as(t, reader), cfg); err != nil {
		t.Error(err)
	}
	if after := status(t, pool, cfg); !slices.Equal(after.Applied, before.Applied) {
		t.Errorf("got %v, want %v", after.Applied, before.Applied)
	}
}

func TestNoSuperuserIsNeeded(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	database := value(t, pool, `SELECT quote_ident(current_database())`)
	role := func(t *testing.T, grants string) (*pgxpool.Pool, string) {
		name := testenv.Namespace(t)
		execSQL(t, pool, `CREATE ROLE `+name+` NOSUPERUSER NOCREATEDB NOCREATEROLE; `+strings.ReplaceAll(grants, "ROLE", name))
		t.Cleanup(func() { dropRole(t, pool, name) })
		return as(t, name), name // also the schema's name
	}
	t.Run("a role that may create schemas", func(t *testing.T) {
		t.Parallel()
		own, schema := role(t, `GRANT CREATE ON DATABASE `+database+` TO ROLE`)
		up(t, own, migrate.Config{Schema: schema})
		if err := migrate.Check(bounded(t), own, migrate.Config{Schema: schema}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a role with a schema that was made for it", func(t *testing.T) {
		t.Parallel()
		own, schema := role(t, `CREATE SCHEMA ROLE AUTHORIZATION ROLE`)
		up(t, own, migrate.Config{Schema: schema})
	})
	t.Run("a role without either is told so and leaves nothing", func(t *testing.T) {
		t.Parallel()
		own, schema := role(t, ``)
		began := time.Now()
		_, err := migrate.Up(bounded(t), own, migrate.Config{Schema: schema})
		if err == nil || !strings.Contains(err.Error(), "permission denied for database") || !strings.Contains(err.Error(), schema) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %s to say so", took)
		}
		if n := locksAtRest(t, pool, schema); n != "0" {
			t.Errorf("%s advisory locks at rest", n)
		}
	})
}

// as returns a pool that works as a role, whatever way of logging in the server wants.
func as(t *testing.T, role string) *pgxpool.Pool {
	return open(t, testenv.Postgres(t), func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SET ROLE `+role)
			return err
		}
	})
}

func dropRole(t *testing.T, pool *pgxpool.Pool, role string) {
	if _, err := pool.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Error(err)
	}
}

func TestNothingLeaksIntoAPooledConnection(t *testing.T) {
	t.Parallel()
	pool := open(t, testenv.Postgres(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	const settings = `SELECT name || '=' || setting FROM pg_settings
		WHERE name !~ '^plpgsql' ORDER BY name` // those appear with the first function that runs
	before := column(t, pool, settings)
	up(t, pool, migrate.Config{Schema: testenv.Namespace(t)})
	if after := column(t, pool, settings); !slices.Equal(after, before) {
		t.Errorf("the connection's settings have changed from %v to %v", without(before, after), without(after, before))
	}
	if left := column(t, pool, `SELECT name FROM pg_prepared_statements`); len(left) > 0 {
		t.Errorf("prepared statements are left: %v", left)
	}
}

func TestAStarterThatGivesUpWaitingLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	cfg := migrate.Config{Schema: testenv.Namespace(t)}
	release := hold(t, pool, `SELECT pg_advisory_xact_lock(hashtextextended('"`+cfg.Schema+`".migrations', 0))`)
	ctx, cancel := context.WithCancel(bounded(t))
	// The role's own patience with locks is for tables, not for this.
	impatient := open(t, testenv.Postgres(t), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "1ms" })
	ended := make(chan error, 1)
	go func() {
		_, err := migrate.Up(ctx, impatient, cfg)
		ended <- err
	}()
	testenv.Eventually(t, 10*time.Second, func() bool { return locksAtRest(t, pool, cfg.Schema) == "2" }, "it does not wait")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "lock timeout") {
		t.Errorf("got %v", err)
	}
	release()
	testenv.Eventually(t, 10*time.Second, func() bool { return locksAtRest(t, pool, cfg.Schema) == "0" }, "a lock is left")
	if applied := up(t, pool, cfg); !slices.Equal(applied, []int64{1}) {
		t.Errorf("the next one applied %v", applied)
	}
}

func TestUpRefusesWhatIsNoConfiguration(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	for field, cfg := range map[string]migrate.Config{
		"Schema":      {Schema: `x"; DROP SCHEMA public`},
		"Environment": {Environment: "a'b"},
		"Partitions":  {Partitions: 7},
		"Ahead":       {Ahead: -1},
		"LockTimeout": {LockTimeout: time.Microsecond},
	} {
		if _, err := migrate.Up(bounded(t), pool, cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
	for _, schema := range []string{"Weir", "9a", "_a", "a-b", "ä", "n2345678901234567890123456789012", "a\n"} {
		if err := migrate.Check(bounded(t), pool, migrate.Config{Schema: schema}); err == nil || !strings.Contains(err.Error(), "Schema") {
			t.Errorf("%q: got %v", schema, err)
		}
	}
}
