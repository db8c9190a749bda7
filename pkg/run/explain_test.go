package run_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/pgstore/migrate"
	"github.com/weirq/weir/pkg/run"
)

func TestAnErrorOfConnectingSaysWhereAndWhatToCheck(t *testing.T) {
	t.Parallel()
	dead, _ := trap(t)
	for url, want := range map[string]string{
		"postgres://app:S3CR3T@127.0.0.1:1/db":             "postgres: connect to 127.0.0.1:1 as app: connection refused\n-> check postgres.url (from WEIR_POSTGRES_URL), or start",
		"postgres://app:S3CR3T@127.0.0.1:1,127.0.0.1:2/db": "postgres: connect to 127.0.0.1:1, 127.0.0.1:2 as app: connection refused",
		"postgres://app:S3CR3T@nohost.invalid:5432/db":     "postgres: connect to nohost.invalid:5432 as app: ",
		"host=/nowhere user=app password=S3CR3T":           "postgres: connect to /nowhere as app: no such file or directory",
		"postgres://app:S3CR3T@" + dead + "/db":            "postgres: connect to " + dead + " as app: ",
	} {
		l, err := config.Read(config.Sources{Environ: []string{"WEIR_POSTGRES_URL=" + url}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		conn, err := pgx.Connect(ctx, url)
		cancel()
		if err == nil {
			_ = conn.Close(t.Context())
			t.Errorf("%s: a connection was made", url)
			continue
		}
		got := run.Explain(err, l)
		if !strings.HasPrefix(got, want) || strings.Contains(got, "S3CR3T") || strings.Count(got, "\n") != 1 || !strings.Contains(got, "\n-> check postgres.url (from WEIR_POSTGRES_URL)") {
			t.Errorf("%s: got %q, want it to begin with %q", url, got, want)
		}
		if !run.IsUnreachable(err) {
			t.Errorf("%s: it counts as reached", url)
		}
	}
	text := run.Explain(&migrate.VersionError{Schema: "weir", Oldest: 1, Newest: 2}, nil)
	if text != "schema \"weir\" is not installed\n-> run: weir migrate up" {
		t.Errorf("got %q", text)
	}
}

func TestOpenDoesNoIO(t *testing.T) {
	t.Parallel()
	address, connected := trap(t)
	l, err := config.Read(config.Sources{Environ: []string{"WEIR_POSTGRES_URL=postgres://app@" + address + "/db", "WEIR_REDIS_URL=redis://" + address}})
	if err != nil {
		t.Fatal(err)
	}
	c, closeAll, err := run.Open(l.Config, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if params := c.Pool().Config().ConnConfig.RuntimeParams; params["statement_timeout"] != "10000" || params["application_name"] != "weir" {
		t.Errorf("startup parameters are %v", params)
	}
	closeAll()
	if n := connected.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestBehindAPoolerNoParameterIsSentThatItRefuses(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"redis://h:1/0", "redis://h:1?addr=h:2", "redis://h:1?master_name=m", "rediss://h:1"} {
		l, err := config.Read(config.Sources{Environ: []string{"WEIR_POSTGRES_URL=postgres://app@h/db", "WEIR_POSTGRES_POOLER=transaction", "WEIR_REDIS_URL=" + mode}})
		if err != nil {
			t.Fatal(err)
		}
		c, closeAll, err := run.Open(l.Config, run.Options{Name: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		conn := c.Pool().Config().ConnConfig
		if len(conn.RuntimeParams) != 1 || conn.RuntimeParams["application_name"] != "mine" || conn.DefaultQueryExecMode != pgx.QueryExecModeCacheDescribe {
			t.Errorf("parameters %v, mode %v", conn.RuntimeParams, conn.DefaultQueryExecMode)
		}
		closeAll()
	}
}
