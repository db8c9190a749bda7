package testenv_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestTheSchemaOfANamespaceIsGoneAfterItsTest(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.Postgres(t))
	var name string
	t.Run("use", func(t *testing.T) {
		name = testenv.Namespace(t)
		if _, err := pool.Exec(t.Context(), `CREATE SCHEMA `+name+` CREATE TABLE jobs (id int)`); err != nil {
			t.Fatal(err)
		}
	})
	if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`).MatchString(name) {
		t.Errorf("name %q", name)
	}
	var schemas int
	err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname = $1`, name).Scan(&schemas)
	if schemas != 0 || err != nil {
		t.Errorf("the schema is left: %d, %v", schemas, err)
	}
}

func TestTheKeysOfANamespaceAreGoneAfterItsTest(t *testing.T) {
	t.Parallel()
	rdb := testenv.Redis(t)
	var key string
	t.Run("use", func(t *testing.T) {
		key = "{" + testenv.Namespace(t) + "}:1:wake"
		if err := rdb.Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	})
	if n, err := rdb.Exists(t.Context(), key).Result(); n != 0 || err != nil {
		t.Errorf("the key is left: %d, %v", n, err)
	}
}

func TestEachModeHasItsClient(t *testing.T) {
	t.Parallel()
	for _, mode := range testenv.Modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			c := testenv.RedisClient(t, mode)
			if mode == testenv.RedisNone {
				if c != nil {
					t.Error("there is a client")
				}
				return
			}
			key := testenv.Namespace(t)
			if err := c.Set(t.Context(), key, 1, 100*time.Millisecond).Err(); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, 5*time.Second, func() bool {
				n, err := c.Exists(t.Context(), key).Result()
				return n == 0 && err == nil
			}, "the key did not expire")
		})
	}
}

func TestAPrivatePostgresIsNotTheSharedOne(t *testing.T) {
	t.Parallel()
	p := testenv.PrivatePostgres(t, "work_mem", "1234kB")
	var got string
	pool := testenv.Pool(t, p.URL())
	if err := pool.QueryRow(t.Context(), `SHOW work_mem`).Scan(&got); err != nil || got != "1234kB" {
		t.Errorf("work_mem: %q, %v", got, err)
	}
	if p.URL() == testenv.Postgres(t) {
		t.Error("the same Postgres")
	}
}

func TestAPrivateRedisIsNotTheSharedOne(t *testing.T) {
	t.Parallel()
	if testenv.PrivateRedis(t).URL() == testenv.RedisURL(t) {
		t.Error("the same Redis")
	}
}

func TestAPoolerLeadsToTheSharedServer(t *testing.T) {
	t.Parallel()
	pool := testenv.Pool(t, testenv.PgBouncer(t, testenv.Postgres(t))+"&default_query_exec_mode=exec")
	var one int
	if err := pool.QueryRow(context.Background(), `SELECT 1`).Scan(&one); err != nil || one != 1 {
		t.Errorf("got %d, %v", one, err)
	}
}
